// Goal: `npm run overlap` measures what it says and refuses what it does not understand. Method: its flags and its figures as
// functions; test/process/overlap.test.ts runs the command itself.
import { describe, expect, test } from "vitest";
import { contestantsOf, engineIds, versionOf } from "../../bench/overlap/contestants.ts";
import { figuresOf, table } from "../../bench/overlap/figures.ts";
import { FlagError, parseFlags } from "../../bench/overlap/flags.ts";

describe("flags", () => {
  test("without any: every engine, 20 trials, no peers, a table", () => {
    expect(parseFlags([])).toEqual({ trials: 20, stores: engineIds, peers: false, json: false });
  });

  test("all of them; stores may be listed or repeated, and each is measured once", () => {
    const args = [
      "--trials",
      "7",
      "--store",
      "postgres,redis",
      "--store=redis",
      "--peers",
      "--json",
    ];
    expect(parseFlags(args)).toEqual({
      ...{ trials: 7, stores: ["redis", "postgres"], peers: true, json: true },
    });
  });

  test("--help asks for nothing else", () => {
    expect(parseFlags(["--help"])).toBeUndefined();
  });

  test.each([
    [["--trials", "0"], "from 1 to 100000"],
    [["--trials", "1.5"], 'got "1.5"'],
    [["--trials", "1e3"], 'got "1e3"'],
    [["--trials"], "--trials"],
    [["--store", "mysql"], 'no store "mysql" here. Known are redis, postgres'],
    [["--store", "redis,"], 'no store ""'],
    [["--peer"], "--peer"],
    [["redis"], "redis"],
  ])("%j is refused, and the message says why", (args, words) => {
    expect(() => parseFlags(args)).toThrow(FlagError);
    expect(() => parseFlags(args)).toThrow(words);
  });
});

describe("contestants", () => {
  test("peers come with the engine they run on, and only when asked for", () => {
    const names = (peers: boolean): string[] =>
      contestantsOf(["redis"], peers).map(({ name }) => name);
    expect(names(false)).toEqual(["redis"]);
    const peers = ["redlock", "redis-semaphore", "redlock-universal", "verrou"];
    expect(names(true)).toEqual(["redis", ...peers]);
  });

  test("a peer has its package's version, also where it is named otherwise", async () => {
    const all = contestantsOf(["redis", "etcd"], true).filter(({ isOurs }) => !isOurs);
    for (const each of all) expect(await versionOf(each)).toMatch(/^[a-z0-9-]+ \d+\.\d+\.\d+/);
    expect(all.map(({ name }) => name)).toContain("etcd3-election");
  });
});

describe("figures", () => {
  test("an act at the very instant of the next grant is an overlap, one before it is none", () => {
    const results = [-400, 0, -0.2, 12.34].map((overlapMs) => ({ overlapMs, toldMs: 100 }));
    expect(figuresOf("x", results)).toEqual({
      ...{ name: "x", trials: 4, overlaps: 2, overlapMsMax: 12.3, holderToldMsP99: 100 },
    });
  });

  test("the gap that was left is reported when there was no overlap", () => {
    const figures = figuresOf("x", [
      { overlapMs: -400, toldMs: 1 },
      { overlapMs: -250, toldMs: 2 },
    ]);
    expect([figures.overlaps, figures.overlapMsMax]).toEqual([0, -250]);
    expect(table([{ version: "X 1", figures, neverTold: 0 }])).toContain("at least 250 ms apart");
  });

  test("who was never told is not given a number", () => {
    const told = Array.from({ length: 99 }, (_, index) => ({ overlapMs: -1, toldMs: index }));
    expect(figuresOf("x", told).holderToldMsP99).toBe(98);
    const figures = figuresOf("x", [...told, { overlapMs: 5_000, toldMs: undefined }]);
    expect(figures.holderToldMsP99).toBeNull();
    expect(table([{ version: "X 1", figures, neverTold: 1 }])).toMatch(
      /over 5000 ms +\| never in 1 of 100/,
    );
  });
});
