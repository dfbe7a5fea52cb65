// Goal: the days of the simulator are full: everything that a workload is there to do is done, everything that can come of it does
// come, and the models of servers do what makes them hard. Method: live through some hundred days and count; a count of zero is
// a failure.
import { describe, expect, test } from "vitest";
import { createPlan } from "../faults/plan.ts";
import { simHost } from "../host/sim-host.ts";
import { runSeed } from "../run.ts";
import type { TraceEvent } from "../world/trace.ts";

const EXPECTED = [
  "election: elected",
  "election: lost",
  "election: resigned",
  "restarted as planned, with everything given back",
  "another leads after a restart as planned",
  "fire: ran",
  "fire: taken",
  "fire: late",
  "write behind a guard: admitted",
  "write behind a guard: refused",
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

const SEEDS_EACH = 50;
const STORES = [
  { store: "memory", parts: 4 },
  { store: "sqlite", parts: 4 },
];

describe.each(STORES)("on $store", ({ store, parts }) => {
  const counts = new Map(EXPECTED.map((name) => [name, 0]));

  // Several tests and not one, so that a slow machine shows how far it got.
  test.each(Array.from({ length: parts }, (_, part) => part * SEEDS_EACH + 1))(
    `%i and the ${SEEDS_EACH - 1} seeds behind it are lived through`,
    async (from) => {
      for (let seed = from; seed < from + SEEDS_EACH; seed += 1) {
        const { result, plan } = await runSeed(seed, store, simHost);
        for (const name of happenings(result.trace.events, plan.faultyMs + plan.calmMs))
          if (counts.has(name)) counts.set(name, (counts.get(name) ?? 0) + 1);
        expect(result.trace.events.length).toBeGreaterThan(100);
      }
    },
  );

  test("and nothing was left out", () => {
    const missing = [...counts].filter(([, count]) => count === 0).map(([name]) => name);
    expect(missing).toEqual([]);
  });
});

const MODEL_SEEDS = 24;
const MODELS = [
  { store: "etcd", days: "usual", expected: ["a new leader"] },
  {
    store: "zookeeper",
    days: "usual",
    expected: ["a new leader", "a read from a server that is behind"],
  },
  { store: "redis", days: "usual", expected: ["a restart"] },
  { store: "redis", days: "beyond the bounds", expected: ["failover", "server's clock set"] },
  { store: "postgres", days: "usual", expected: ["the same server again", "a standby took over"] },
];

test.each(MODELS)("$store on days $days: $expected", async ({ store, days, expected }) => {
  const isBeyond = days === "beyond the bounds";
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

function* happenings(events: readonly TraceEvent[], shutdownAt: number): Generator<string> {
  const doubtful = new Set<string>();
  /** The leader that closed last, until another is elected. */
  let gone: string | undefined;
  let leading: string | undefined;
  for (const event of events) {
    if (event.kind === "election") yield `election: ${event.event}`;
    if (event.kind === "fire") yield `fire: ${event.step}`;
    if (event.kind === "over") yield `lease over: ${event.reason}`;
    if (event.kind === "releasedAs") yield `drain: ${event.result}`;
    if (event.kind === "wrote")
      yield `write ${event.guarded ? "behind" : "without"} a guard: ${event.outcome}`;
    if (event.kind === "failed" && event.code === "LEASE_IN_DOUBT") yield "doubt: check() refused";
    if (event.kind === "renewed" && event.outcome === "failed" && !doubtful.has(event.session)) {
      doubtful.add(event.session);
      yield "doubt: entered";
    }
    if (event.kind === "renewed" && event.outcome === "renewed" && doubtful.delete(event.session))
      yield "doubt: left";
    if (event.kind === "closed" && event.at < shutdownAt) {
      yield "restarted as planned, with everything given back";
      if (event.who === leading) gone = leading;
    }
    if (event.kind === "election" && event.event === "elected") {
      if (gone !== undefined && gone !== event.who)
        yield "another leads after a restart as planned";
      [gone, leading] = [undefined, event.who];
    }
  }
}
