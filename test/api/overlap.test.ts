// Goal: `npm run overlap` measures what it says and rejects what it does not understand. Method:
// its flags and figures as functions; test/process/overlap.test.ts runs the command itself.
import { describe, expect, test } from "vitest";
import { describeVersion, listContestants } from "../../bench/overlap/contestants.ts";
import { formatTable, toRow } from "../../bench/overlap/figures.ts";
import { FlagError, parseFlags } from "../../bench/overlap/flags.ts";
import { serverEngines } from "../../bench/servers.ts";

describe("flags", () => {
  test("by default, every engine is measured with 20 trials, no peers and a table", () => {
    const stores = serverEngines;
    expect(parseFlags([])).toEqual({ trials: 20, stores, peers: false, json: false });
  });

  test("stores may be listed or repeated, and each is measured once", () => {
    const args = "--trials 7 --store postgres,redis --store=redis --peers --json".split(" ");
    const stores = ["redis", "postgres"];
    expect(parseFlags(args)).toEqual({ trials: 7, stores, peers: true, json: true });
  });

  test("--help requests nothing else", () => {
    expect(parseFlags(["--help"])).toBeUndefined();
  });

  test.each([
    [["--trials", "0"], "from 1 to 100000"],
    [["--trials", "1.5"], 'got "1.5"'],
    [["--trials", "1e3"], 'got "1e3"'],
    [["--trials"], "--trials"],
    [["--store", "mysql"], 'expects some of redis, postgres, etcd, zookeeper, got "mysql"'],
    [["--store", "redis,"], 'got ""'],
    [["--peer"], "--peer"],
    [["redis"], "redis"],
  ])("%j is rejected with the reason", (args, words) => {
    expect(() => parseFlags(args)).toThrow(FlagError);
    expect(() => parseFlags(args)).toThrow(words);
  });
});

describe("contestants", () => {
  test("peers follow the engine they run on, and only on request", () => {
    const names = (peers: boolean): string[] =>
      listContestants(["redis"], peers).map(({ name }) => name);
    expect(names(false)).toEqual(["redis"]);
    const peers = ["redlock", "redis-semaphore", "redlock-universal", "verrou"];
    expect(names(true)).toEqual(["redis", ...peers]);
  });

  test("locks without a link that can be cut are left out", () => {
    expect(listContestants(["postgres"], true).map(({ name }) => name)).toEqual(["postgres"]);
  });

  test("a peer has the version of its package, also if the names differ", async () => {
    const all = listContestants(["redis", "etcd"], true).filter(({ peer }) => peer !== undefined);
    for (const each of all)
      expect(await describeVersion(each)).toMatch(/^[a-z0-9-]+ \d+\.\d+\.\d+/);
    expect(all.map(({ name }) => name)).toContain("etcd3-election");
  });
});

describe("figures", () => {
  test("an act at the instant of the next grant is an overlap, an act before it is not", () => {
    const results = [-400, 0, -0.2, 12.34].map((overlapMs) => ({ overlapMs, toldMs: 100 }));
    expect(toRow("x", "X 1", results).figures).toEqual({
      name: "x",
      trials: 4,
      overlaps: 2,
      overlapMsMax: 12.3,
      holderToldMsP99: 100,
    });
  });

  test("without an overlap, the smallest gap is reported", () => {
    const row = toRow("x", "X 1", [
      { overlapMs: -400, toldMs: 1 },
      { overlapMs: -250, toldMs: 2 },
    ]);
    expect([row.figures.overlaps, row.figures.overlapMsMax]).toEqual([0, -250]);
    expect(formatTable([row])).toContain("at least 250 ms apart");
  });

  test("a holder that was never notified has no time", () => {
    const told = Array.from({ length: 99 }, (_, index) => ({ overlapMs: -1, toldMs: index }));
    expect(toRow("x", "X 1", told).figures.holderToldMsP99).toBe(98);
    const row = toRow("x", "X 1", [...told, { overlapMs: 5_000, toldMs: undefined }]);
    expect(row.figures.holderToldMsP99).toBeNull();
    expect(formatTable([row])).toMatch(/over 5000 ms +\| never in 1 of 100/);
  });
});
