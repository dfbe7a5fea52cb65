// Goal: rank and preference decide which waiting candidate leads next. They delay no candidate and
// end no term. Method: as in election.test.ts.
import { describe, expect, test } from "vitest";
import { type Candidate, candidate } from "../../test/support/holder/election-world.ts";
import {
  flush,
  Gate,
  hang,
  makeWorld,
  TIMING,
  type World,
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
  test("a candidate of rank 0 leads before earlier candidates of other ranks", async () => {
    const world = makeWorld();
    const [leader, ...others] = await line(world, { leader: 0, backup: 2, main: 0 });
    await leader?.election.stop();
    await flush();
    expect(states(others)).toEqual(["campaigning", "leading"]);
  });

  test("candidates lead in the order of their ranks, without a delay", async () => {
    const world = makeWorld();
    const [leader, ...others] = await line(world, { leader: 0, third: 3, second: 2 });
    await leader?.election.stop();
    await flush();
    expect(states(others)).toEqual(["campaigning", "leading"]);
    await others[1]?.election.stop();
    await flush();
    expect(states(others)).toEqual(["leading", "stopped"]);
  });

  test("L1: after a crash the only candidate leads within the ttl, whatever its rank", async () => {
    const world = makeWorld();
    const [leader, ...others] = await line(world, { leader: 0, backup: 20 });
    leader?.store.hookAll(hang);
    await world.clock.advance(TIMING.ttlMs);
    expect(states(others)).toEqual(["leading"]);
  });

  test("a leader is not replaced by a lower rank that appears later", async () => {
    const world = makeWorld();
    const candidates = await line(world, { backup: 1, main: 0 });
    await world.clock.advance(60_000);
    expect(states(candidates)).toEqual(["leading", "campaigning"]);
  });
});

describe("preference", () => {
  test("the preferred candidate leads from anywhere in the queue, and the others keep their order", async () => {
    const world = makeWorld();
    const candidates = await line(world, { one: 0, two: 0, three: 0, four: 0 });
    const [one, , three, four] = candidates as [Candidate, Candidate, Candidate, Candidate];
    const resigned = await one.election.resign({ preferred: "four" });
    expect(resigned).toMatchObject({
      release: "released",
      successor: { holderId: "four" },
      waitedMs: 0,
    });
    await flush();
    expect(states(candidates)).toEqual(["campaigning", "campaigning", "campaigning", "leading"]);
    expect(three.eventTypes()).toEqual(["campaigning"]);
    await four.election.stop();
    await flush();
    expect(states(candidates)).toEqual(["campaigning", "leading", "campaigning", "stopped"]);
  });

  test("the preferred candidate may have a higher rank", async () => {
    const world = makeWorld();
    const candidates = await line(world, { one: 0, two: 0, backup: 5 });
    const resigned = await candidates[0]?.election.resign({ preferred: "backup" });
    expect(resigned).toMatchObject({ successor: { holderId: "backup" } });
    await flush();
    expect(states(candidates)).toEqual(["campaigning", "campaigning", "leading"]);
  });

  test("an absent preferred candidate delays no other candidate", async () => {
    const world = makeWorld();
    const candidates = await line(world, { one: 0, two: 0, three: 0 });
    const [one] = candidates as [Candidate];
    const resigning = one.election.stop({ preferred: "absent", waitMs: 5_000 });
    await flush();
    expect(states(candidates.slice(1))).toEqual(["leading", "campaigning"]);
    // The report waits half a second for the preferred candidate, in case the others make room.
    await world.clock.advance(500);
    expect(await resigning).toMatchObject({ successor: { holderId: "two" }, waitedMs: 500 });
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
});

describe("the release of a term", () => {
  test("a candidate campaigns again without waiting for the answer to its release", async () => {
    const world = makeWorld();
    let terms = 0;
    const lead = (): unknown => {
      terms += 1;
      return terms === 1 ? undefined : new Promise(() => undefined);
    };
    const one = await candidate(world, "one", { lead });
    // The store frees the resource, and its answer gets lost.
    one.store.hooks.release = async (_, forward) => {
      await forward();
      return hang();
    };
    one.election.start();
    await world.clock.advance(200);
    expect(one.election.state).toBe("leading");
    expect(terms).toBe(2);
  });

  test("an election reports its release before it reports that it has stopped", async () => {
    const world = makeWorld();
    const one = await candidate(world, "one", { lead: () => undefined, campaignAgain: false });
    const gate = new Gate();
    one.store.hooks.release = (_, forward) => gate.opened.then(forward);
    one.election.start();
    await flush();
    expect(one.eventTypes()).toEqual(["campaigning", "elected"]);
    gate.open();
    await flush();
    expect(one.eventTypes()).toEqual(["campaigning", "elected", "resigned", "stopped"]);
    expect(one.events[2]).toMatchObject({ release: "released" });
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
});
