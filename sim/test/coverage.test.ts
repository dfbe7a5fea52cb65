// Goal: the simulated runs cover everything that workloads and models can do, such as every
// election event and failover. Method: run a few hundred seeds and count; a count of zero is a
// failure.
import { describe, expect, test } from "vitest";
import { createPlan } from "../faults/plan.ts";
import { simHost } from "../host/sim-host.ts";
import { runSeed } from "../run.ts";
import type { TraceEvent } from "../world/trace.ts";

const EXPECTED = [
  "election: elected",
  "election: lost",
  "election: resigned",
  "planned restart: all leases released",
  "planned restart: another program leads",
  "fire: ran",
  "fire: taken",
  "fire: late",
  "write with a guard: admitted",
  "write with a guard: refused",
  "write without a guard: admitted",
  "doubt: entered",
  "doubt: left",
  "doubt: check() refused",
  "drain: released",
  "drain: overrun",
  "drain: lost",
  "drain: unconfirmed",
  "lease over: expired",
  "lease over: revoked",
  "lease over: released",
];

const SEEDS_EACH = 25;
const STORES = [
  { store: "memory", from: 1, parts: 4 },
  // A seed takes ten times as long here. Seed 80 is the only one of the first 100 with an overrun.
  { store: "sqlite", from: 76, parts: 1 },
];

describe.each(STORES)("on $store", ({ store, from: first, parts }) => {
  const counts = new Map(EXPECTED.map((name) => [name, 0]));

  // Several tests instead of one, so that progress is visible on a slow machine.
  test.each(Array.from({ length: parts }, (_, part) => first + part * SEEDS_EACH))(
    `seed %i and the ${SEEDS_EACH - 1} seeds after it run`,
    async (from) => {
      for (let seed = from; seed < from + SEEDS_EACH; seed += 1) {
        const { result, plan } = await runSeed(seed, store, simHost);
        for (const name of listEvents(result.trace.events, plan.faultyMs + plan.calmMs))
          if (counts.has(name)) counts.set(name, (counts.get(name) ?? 0) + 1);
        expect(result.trace.events.length).toBeGreaterThan(100);
      }
    },
  );

  test("every expected event occurs in these runs", () => {
    const missing = [...counts].filter(([, count]) => count === 0).map(([name]) => name);
    expect(missing).toEqual([]);
  });
});

const MODEL_SEEDS = 24;
const MODELS = [
  { store: "etcd", runs: "within the bounds", expected: ["a new leader"] },
  {
    store: "zookeeper",
    runs: "within the bounds",
    expected: ["a new leader", "a read from a server that is behind"],
  },
  { store: "redis", runs: "within the bounds", expected: ["a restart"] },
  { store: "redis", runs: "beyond the bounds", expected: ["failover", "server's clock set"] },
  {
    store: "postgres",
    runs: "within the bounds",
    expected: ["the same server again", "a standby took over"],
  },
];

test.each(MODELS)("$store has these events $runs: $expected", async ({ store, runs, expected }) => {
  const isBeyond = runs === "beyond the bounds";
  const seeds = Array.from({ length: 400 }, (_, index) => index + 1)
    .filter((seed) => createPlan(seed, store).isBeyondBounds === isBeyond)
    .slice(0, MODEL_SEEDS);
  expect(seeds).toHaveLength(MODEL_SEEDS);
  const seen = new Set<string>();
  for (const seed of seeds) {
    const { trace } = (await runSeed(seed, store, simHost)).result;
    for (const name of [...trace.modelEvents.keys(), ...trace.faults.keys()]) seen.add(name);
  }
  expect(expected.filter((name) => !seen.has(name))).toEqual([]);
});

function* listEvents(events: readonly TraceEvent[], shutdownAt: number): Generator<string> {
  const doubtful = new Set<string>();
  /** The leader that closed last, until the next election. */
  let gone: string | undefined;
  let leading: string | undefined;
  for (const event of events) {
    if (event.kind === "election") yield `election: ${event.event}`;
    if (event.kind === "fire") yield `fire: ${event.step}`;
    if (event.kind === "over") yield `lease over: ${event.reason}`;
    if (event.kind === "releasedAs") yield `drain: ${event.result}`;
    if (event.kind === "wrote")
      yield `write ${event.guarded ? "with" : "without"} a guard: ${event.outcome}`;
    if (event.kind === "failed" && event.code === "LEASE_IN_DOUBT") yield "doubt: check() refused";
    if (event.kind === "renewed" && event.outcome === "failed" && !doubtful.has(event.session)) {
      doubtful.add(event.session);
      yield "doubt: entered";
    }
    if (event.kind === "renewed" && event.outcome === "renewed" && doubtful.delete(event.session))
      yield "doubt: left";
    if (event.kind === "closed" && event.at < shutdownAt) {
      yield "planned restart: all leases released";
      if (event.who === leading) gone = leading;
    }
    if (event.kind === "election" && event.event === "elected") {
      if (gone !== undefined && gone !== event.who) yield "planned restart: another program leads";
      [gone, leading] = [undefined, event.who];
    }
  }
}
