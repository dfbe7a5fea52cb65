// Goal: rank and preference influence when candidates request the lease, cost a bounded time if the
// preferred candidate is absent, and never affect safety. Method: as in election.test.ts.
import { describe, expect, test } from "vitest";
import { type Candidate, candidate } from "../../test/support/holder/election-world.ts";
import {
  down,
  flush,
  hang,
  makeWorld,
  TIMING,
  type World,
  writeRecord,
} from "../../test/support/holder/holder-world.ts";
import type { ElectionOptions } from "./election.ts";

/** Starts the candidates one after the other, so that they queue in this order. */
async function line(world: World, ranks: Record<string, number>): Promise<Candidate[]> {
  const candidates: Candidate[] = [];
  for (const [name, rank] of Object.entries(ranks)) {
    const one = await candidate(world, name, { rank });
    one.election.start();
    await flush();
    candidates.push(one);
  }
  return candidates;
}

const states = (candidates: readonly Candidate[]): string[] =>
  candidates.map(({ election }) => election.state);

describe("rank", () => {
  test("a candidate of rank 0 leads immediately, before earlier candidates of other ranks have sent a request", async () => {
    const world = makeWorld();
    const [leader, ...others] = await line(world, { leader: 0, backup: 2, main: 0 });
    await leader?.election.stop();
    await flush();
    expect(states(others)).toEqual(["campaigning", "leading"]);
    await world.clock.advance(60_000);
    expect(others[0]?.store.calls.grant).toBe(0);
  });

  test("without a lower rank, candidates lead in the order of ranks, 500 ms per rank later", async () => {
    const world = makeWorld();
    const [leader, ...others] = await line(world, { leader: 0, third: 3, second: 2 });
    await leader?.election.stop();
    await world.clock.advance(999);
    expect(states(others)).toEqual(["campaigning", "campaigning"]);
    await world.clock.advance(1);
    expect(states(others)).toEqual(["campaigning", "leading"]);
    await world.clock.advance(60_000);
    expect(others[0]?.store.calls.grant).toBe(0);
    await others[1]?.election.stop();
    await world.clock.advance(1_500);
    expect(others[0]?.election.state).toBe("leading");
  });

  test("L1: after a crash the next rank leads within the ttl plus its delay", async () => {
    const world = makeWorld();
    const [leader, ...others] = await line(world, { leader: 0, backup: 1 });
    leader?.store.hookAll(hang);
    await world.clock.advance(TIMING.ttlMs + 499);
    expect(states(others)).toEqual(["campaigning"]);
    await world.clock.advance(1);
    expect(states(others)).toEqual(["leading"]);
  });

  test("a leader is not replaced by a lower rank that appears later", async () => {
    const world = makeWorld();
    const candidates = await line(world, { backup: 1 });
    await world.clock.advance(500);
    const [main] = await line(world, { main: 0 });
    await world.clock.advance(60_000);
    expect(states([...candidates, main as Candidate])).toEqual(["leading", "campaigning"]);
  });

  test("stop() ends a candidate that waits because of its rank, and its watch", async () => {
    const world = makeWorld();
    const [leader, backup] = await line(world, { leader: 0, backup: 1 });
    await leader?.election.stop();
    expect(await backup?.election.stop()).toEqual({ resigned: false });
    await leader?.tenure.close();
    await backup?.tenure.close();
    await world.clock.advance(60_000);
    expect(backup?.eventTypes()).toEqual(["campaigning", "stopped"]);
    expect(world.clock.timers).toBe(0);
  });
});

describe("preference", () => {
  test("the preferred candidate leads from anywhere in the queue; the others yield and keep campaigning", async () => {
    const world = makeWorld();
    const candidates = await line(world, { one: 0, two: 0, three: 0, four: 0 });
    const [one, two, three, four] = candidates as [Candidate, Candidate, Candidate, Candidate];
    const resigned = await one.election.resign({ preferred: "four" });
    expect(resigned).toMatchObject({ release: "released", successor: { holderId: "four" } });
    await flush();
    expect(states(candidates)).toEqual(["campaigning", "campaigning", "campaigning", "leading"]);
    expect(two.eventTypes()).toEqual(["campaigning", "yielded"]);
    expect(three.events.at(-1)).toEqual({ type: "yielded", to: "four" });
    expect(resigned).toMatchObject({ waitedMs: 0 });
    // The record was removed, so later candidates do not wait for it.
    expect((await two.tenure.read("leader@next")).holder).toBeUndefined();
    await four.election.stop();
    await flush();
    expect(states(candidates).filter((state) => state === "leading")).toHaveLength(1);
    expect(two.eventTypes().filter((type) => type === "yielded")).toHaveLength(1);
  });

  test("the preferred candidate may have a higher rank", async () => {
    const world = makeWorld();
    const candidates = await line(world, { one: 0, two: 0, backup: 5 });
    const resigned = await candidates[0]?.election.resign({ preferred: "backup" });
    expect(resigned).toMatchObject({ successor: { holderId: "backup" } });
    await flush();
    expect(states(candidates)).toEqual(["campaigning", "campaigning", "leading"]);
  });

  test("an absent preferred candidate delays the election only once", async () => {
    const world = makeWorld();
    const candidates = await line(world, { one: 0, two: 0, three: 0 });
    const [one] = candidates as [Candidate];
    const resigning = one.election.stop({ preferred: "nobody", preferredMs: 1_500, waitMs: 5_000 });
    await world.clock.advance(1_499);
    expect(states(candidates.slice(1))).toEqual(["campaigning", "campaigning"]);
    await world.clock.advance(1);
    expect(states(candidates.slice(1))).toContain("leading");
    await world.clock.advance(5_000);
    expect(await resigning).toMatchObject({
      successor: { holderId: expect.stringMatching(/two|three/) },
    });
    // The record still exists, and the candidate that yielded once does not yield again.
    const next = candidates.find(({ election }) => election.state === "leading") as Candidate;
    await next.election.stop();
    await flush();
    expect(states(candidates.slice(1)).sort()).toEqual(["leading", "stopped"]);
  });

  test("the preference outlives the drain of a leader that stops slowly", async () => {
    const world = makeWorld();
    let end = (): void => undefined;
    const slow = new Promise<void>((resolve) => {
      end = resolve;
    });
    const one = await candidate(world, "one", { lead: () => slow });
    one.election.start();
    await flush();
    const others = await line(world, { two: 0, three: 0 });
    const stopping = one.election.stop({ preferred: "three", drainMs: 60_000, waitMs: 5_000 });
    await world.clock.advance(30_000);
    end();
    expect(await stopping).toMatchObject({ successor: { holderId: "three" } });
    await flush();
    expect(states(others)).toEqual(["campaigning", "leading"]);
  });

  test("a preference that cannot be stored is reported and does not prevent the resignation", async () => {
    const world = makeWorld();
    const candidates = await line(world, { one: 0, two: 0, three: 0 });
    const [one] = candidates as [Candidate];
    one.store.hooks.openSession = down;
    await one.election.resign({ preferred: "three" });
    await flush();
    expect(candidates[1]?.election.state).toBe("leading");
    expect(one.eventTypes()).toContain("preferenceFailed");
  });

  test("S7: a preference that cannot be read delays a candidate by at most 250 ms", async () => {
    const world = makeWorld();
    const [one, two] = (await line(world, { one: 0, two: 0 })) as [Candidate, Candidate];
    two.store.hooks.read = hang;
    await one.election.resign({ waitMs: 0 });
    await world.clock.advance(249);
    expect(two.election.state).toBe("campaigning");
    await world.clock.advance(1);
    expect(two.election.state).toBe("leading");
  });

  test("a record with a longer time delays candidates by at most 60 seconds", async () => {
    const world = makeWorld();
    const outsider = await world.join("outsider");
    const value = { preferred: "nobody", preferredMs: 1e12 };
    await writeRecord(world, outsider, "leader@next", value);
    const one = await candidate(world, "one");
    one.election.start();
    await world.clock.advance(59_999);
    expect(one.election.state).toBe("campaigning");
    await world.clock.advance(1);
    expect(one.election.state).toBe("leading");
  });

  test("a record with a negative time delays no candidate", async () => {
    const world = makeWorld();
    const outsider = await world.join("outsider");
    await writeRecord(world, outsider, "leader@next", { preferred: "x", preferredMs: -1 });
    const one = await candidate(world, "one");
    one.election.start();
    await world.clock.advance(1);
    expect(one.election.state).toBe("leading");
  });

  test("the preference of a later leader replaces that of an earlier one", async () => {
    const world = makeWorld();
    const candidates = await line(world, { one: 0, two: 0, three: 0 });
    const [one, two] = candidates as [Candidate, Candidate];
    void one.election.stop({ preferred: "nobody", preferredMs: 1_000 });
    await world.clock.advance(1_000);
    const leader = candidates.find(({ election }) => election.state === "leading") as Candidate;
    const other = leader === two ? "three" : "two";
    const resigned = await leader.election.resign({ preferred: other });
    expect(resigned).toMatchObject({ successor: { holderId: other } });
    expect(leader.eventTypes()).not.toContain("preferenceFailed");
  });
});

test("invalid input is rejected with what to change", async () => {
  const world = makeWorld();
  const { tenure } = await world.join("one");
  const lead = (): void => undefined;
  for (const rank of [-1, 0.5, 21, "high", Number.NaN]) {
    const options = { lead, rank } as ElectionOptions;
    expect(() => tenure.election("leader", options)).toThrow(/`rank` must be a whole number/);
  }
  const election = tenure.election("leader", { lead });
  await expect(election.resign({ preferred: "" })).rejects.toThrow(/`holderId`/);
  await expect(election.resign({ preferred: "x", preferredMs: 60_001 })).rejects.toThrow(
    /`preferredMs`/,
  );
});
