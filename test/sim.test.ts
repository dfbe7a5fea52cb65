// Goal: the simulator is green on the code as it is, repeatable to the last digit, closed to the real world, and counts a day
// on which nothing was learned as invalid. Method: run seeds; run some twice; reach for the real world inside.
import { describe, expect, test } from "vitest";
import { simHost } from "../src/runtime/sim-host.ts";
import { judge } from "../src/sim/judge.ts";
import { changed, FAULT_KINDS, planOf } from "../src/sim/plan.ts";
import { ENGINES, runSeed } from "../src/sim/run.ts";
import { runSwarm } from "../src/sim/swarm.ts";

const stores = Object.keys(ENGINES);

/** Many tests and not one, so that a slow machine shows how far it got. */
const SEEDS_EACH = 50;
const SMOKE: { readonly store: string; readonly from: number; readonly to: number }[] = [
  ...partsOf("memory", 30),
  ...partsOf("etcd", 1),
  ...partsOf("postgres", 2),
];

function partsOf(store: string, count: number): typeof SMOKE {
  return Array.from({ length: count }, (_, part) => {
    const from = part * SEEDS_EACH + 1;
    return { store, from, to: from + SEEDS_EACH - 1 };
  });
}

describe("smoke", () => {
  test.each(SMOKE)(
    "on $store, seeds $from to $to break no invariant and prove something",
    async (range) => {
      const summary = await runSwarm({ ...range, host: simHost, failFast: false });
      expect(summary.findings).toEqual([]);
      expect(summary.seeds).toBe(SEEDS_EACH);
      expect(summary.faults / summary.seeds).toBeGreaterThan(100);
      expect(summary.kinds.size).toBeGreaterThanOrEqual(8);
      expect(summary.staleWrites).toBeGreaterThanOrEqual(SEEDS_EACH);
    },
  );
});

/** Each found a fault of ours; what it was is in docs/simulator.md. */
const FOUND: [store: string, seed: number][] = [
  ["etcd", 7],
  ["memory", 542],
  ["etcd", 630],
  ["etcd", 869],
  ["postgres", 4162],
];

test.each(FOUND)("on %s, seed %i, which found something once, is green", async (store, seed) => {
  const { verdict } = await runSeed(seed, store, simHost);
  expect(verdict.violations).toEqual([]);
});

describe("determinism", () => {
  test.each(stores)(
    "on %s the same seed gives the same trace, and another seed another",
    async (store) => {
      const hashes = new Set<string>();
      for (let seed = 1; seed <= 8; seed += 1) {
        const first = await runSeed(seed, store, simHost);
        const second = await runSeed(seed, store, simHost);
        expect(second.ended.trace.hash()).toBe(first.ended.trace.hash());
        expect(second.ended.steps).toBe(first.ended.steps);
        hashes.add(first.ended.trace.hash());
      }
      expect(hashes.size).toBe(8);
    },
  );
});

describe("plans", () => {
  test("every seed draws at least eight kinds, and every kind is drawn by some seed", () => {
    const seen = new Set<string>();
    for (let seed = 1; seed <= 300; seed += 1) {
      const { kinds } = planOf(seed, "memory");
      expect(new Set(kinds).size).toBeGreaterThanOrEqual(8);
      for (const kind of kinds) seen.add(kind);
    }
    expect([...seen].sort()).toEqual([...FAULT_KINDS].sort());
  });

  test("clocks stay within the bound that the holders are told", () => {
    for (let seed = 1; seed <= 300; seed += 1) {
      const { rates, ttlMs, clockErrorMs } = planOf(seed, "memory");
      const [store = 1, ...others] = rates;
      for (const rate of others)
        expect(Math.abs(rate / store - 1) * ttlMs).toBeLessThan(clockErrorMs);
    }
  });

  test("what is left out does not happen", async () => {
    const without = ["loss", "slow", "crash", "duplicate"] as const;
    const { ended } = await runSeed(3, "memory", simHost, { without, keep: [0, 2] });
    for (const kind of without) expect(ended.trace.faults.has(kind)).toBe(false);
    expect(changed(planOf(3, "memory"), { without: [], keep: [0, 2] }).faults).toHaveLength(2);
  });
});

describe("the closed world", () => {
  test("clocks, chance, timers and sockets throw inside, and work again outside", async () => {
    const net = await import("node:net");
    const doors: Record<string, () => unknown> = {
      "Date.now": () => Date.now(),
      "performance.now": () => performance.now(),
      "Math.random": () => Math.random(),
      hrtime: () => process.hrtime(),
      setTimeout: () => setTimeout(() => undefined, 1),
      setInterval: () => setInterval(() => undefined, 1),
      setImmediate: () => setImmediate(() => undefined),
      randomUUID: () => crypto.randomUUID(),
      getRandomValues: () => crypto.getRandomValues(new Uint8Array(1)),
      connect: () => new net.Socket().connect(1),
      fetch: () => void fetch("http://127.0.0.1:1"),
    };
    const reopen = simHost.closeWorld();
    const seen = Object.entries(doors).map(([name, use]) => [name, messageOf(use)]);
    reopen();
    for (const [name, message] of seen)
      expect(message, name).toContain("inside the simulated world");
    expect(messageOf(() => Date.now())).toBe("");
    expect(messageOf(() => Math.random())).toBe("");
  });

  test("every promise that can settle has settled before the next turn", async () => {
    const order: string[] = [];
    let turns = 0;
    const deep = async (levels: number): Promise<void> => {
      for (let level = 0; level < levels; level += 1) await Promise.resolve();
      order.push("settled");
    };
    await simHost.eachTurn(() => {
      turns += 1;
      order.push(`turn ${turns}`);
      void deep(1_000);
      return turns < 3;
    });
    expect(order).toEqual(["turn 1", "settled", "turn 2", "settled", "turn 3"]);
  });

  test("what a step throws ends the turns", async () => {
    const broken = simHost.eachTurn(() => {
      throw new Error("planned");
    });
    await expect(broken).rejects.toThrow("planned");
  });
});

test("a day without grants or stale writes is invalid", async () => {
  const { plan, ended } = await runSeed(1, "memory", simHost);
  expect(judge(plan, ended).invalid).toEqual([]);
  const empty = { ...ended, trace: { ...ended.trace, events: [] } as never };
  expect(judge(plan, empty).invalid).toEqual([
    "only 0 grants",
    "nobody tried a stale write at a guard",
  ]);
});

function messageOf(use: () => unknown): string {
  try {
    use();
    return "";
  } catch (error) {
    return String(error);
  }
}
