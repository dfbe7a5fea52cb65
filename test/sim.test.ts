// Goal: the simulator notices a day that cannot be repeated, is closed to the real world, and counts a day on which nothing was
// learned as invalid. Method: run seeds; make one differ; reach for the real world inside. Many seeds: sim-smoke-*.test.ts.
import { describe, expect, test } from "vitest";
import { simHost } from "../src/runtime/sim-host.ts";
import { judge } from "../src/sim/judge.ts";
import { changed, FAULT_KINDS, planOf } from "../src/sim/plan.ts";
import { MODEL_NAMES, runSeed } from "../src/sim/run.ts";
import { runSwarm } from "../src/sim/swarm.ts";
import type { Host } from "../src/sim/world.ts";

describe("determinism", () => {
  test.each(MODEL_NAMES)("on %s another seed gives another day", async (store) => {
    const hashes = new Set<string>();
    for (let seed = 1; seed <= 8; seed += 1)
      hashes.add((await runSeed(seed, store, simHost)).ended.trace.hash());
    expect(hashes.size).toBe(8);
  });

  test("a day that is not the same the second time is a finding", async () => {
    let days = 0;
    const host: Host = {
      closeWorld: simHost.closeWorld,
      eachTurn: (step) => {
        days += 1;
        let turns = 0;
        const turnsMax = days === 2 ? 300 : Number.POSITIVE_INFINITY;
        return simHost.eachTurn(() => step() && ++turns < turnsMax);
      },
    };
    const options = { from: 1, to: 2, store: "memory", host, failFast: false, twice: true };
    const { findings } = await runSwarm(options);
    expect(findings).toMatchObject([{ seed: 1, violations: [{ invariant: "determinism" }] }]);
  });
});

describe("plans", () => {
  test("every seed draws at least eight kinds, and every kind is drawn by some seed", () => {
    const seen = new Set<string>();
    for (let seed = 1; seed <= 300; seed += 1) {
      const { kinds } = planOf(seed, "memory");
      expect(new Set(kinds).size).toBeGreaterThanOrEqual(8);
      for (const kind of [...kinds, ...planOf(seed, "sqlite").kinds]) seen.add(kind);
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

test("a day without enough faults, without grants or stale writes is invalid", async () => {
  const { plan, ended } = await runSeed(1, "memory", simHost);
  expect(judge(plan, ended).invalid).toEqual([]);
  const { faultCount } = ended.trace;
  expect(judge({ ...plan, faultsMin: faultCount + 1 }, ended).invalid).toEqual([
    `only ${faultCount} faults`,
  ]);
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
