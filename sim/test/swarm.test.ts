// Goal: the simulator reports runs that are not repeatable and uncaught errors, and counts runs
// that prove too little as invalid. Method: run seeds; make one differ; throw in the middle. Many
// seeds run in smoke-*.test.ts.
import { describe, expect, test } from "vitest";
import { judge } from "../checkers/judge.ts";
import { applyChanges, createPlan, FAULT_KINDS } from "../faults/plan.ts";
import { simHost } from "../host/sim-host.ts";
import { MODEL_NAMES, runSeed } from "../run.ts";
import { shrink } from "../shrink.ts";
import { runSwarm } from "../swarm.ts";
import type { Host } from "../world/world.ts";

describe("determinism", () => {
  test.each(MODEL_NAMES)("on %s, different seeds give different traces", async (store) => {
    const hashes = new Set<string>();
    for (let seed = 1; seed <= 8; seed += 1)
      hashes.add((await runSeed(seed, store, simHost)).result.trace.hash());
    expect(hashes.size).toBe(8);
  });

  test("a run that differs from its repetition is a finding", async () => {
    let runs = 0;
    const host: Host = {
      ...simHost,
      eachTurn: (step) => {
        runs += 1;
        let turns = 0;
        const turnsMax = runs === 2 ? 300 : Number.POSITIVE_INFINITY;
        return simHost.eachTurn(() => step() && ++turns < turnsMax);
      },
    };
    const options = { from: 1, to: 2, store: "memory", host, failFast: false, twice: true };
    const { findings } = await runSwarm(options);
    expect(findings).toMatchObject([{ seed: 1, violations: [{ invariant: "determinism" }] }]);
  });
});

describe("plans", () => {
  test("every seed draws at least eight kinds of faults, and every kind is drawn by some seed", () => {
    const seen = new Set<string>();
    for (let seed = 1; seed <= 300; seed += 1) {
      const { kinds } = createPlan(seed, "memory");
      expect(new Set(kinds).size).toBeGreaterThanOrEqual(8);
      for (const kind of [...kinds, ...createPlan(seed, "sqlite").kinds]) seen.add(kind);
    }
    expect([...seen].sort()).toEqual([...FAULT_KINDS].sort());
  });

  test("clocks stay within the clock error that the holders assume", () => {
    for (let seed = 1; seed <= 300; seed += 1) {
      const { rates, ttlMs, clockErrorMs } = createPlan(seed, "memory");
      const [store = 1, ...others] = rates;
      for (const rate of others)
        expect(Math.abs(rate / store - 1) * ttlMs).toBeLessThan(clockErrorMs);
    }
  });

  test("faults that are left out do not occur", async () => {
    const without = ["loss", "slow", "crash", "duplicate"] as const;
    const { result } = await runSeed(3, "memory", simHost, { without, keep: [0, 2] });
    for (const kind of without) expect(result.trace.faults.has(kind)).toBe(false);
    expect(
      applyChanges(createPlan(3, "memory"), { without: [], keep: [0, 2] }).faults,
    ).toHaveLength(2);
  });
});

describe("turns", () => {
  test("all settled promises are handled before the next turn and before the end", async () => {
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
    expect(order).toEqual(["turn 1", "settled", "turn 2", "settled", "turn 3", "settled"]);
  });

  test("an error in a step ends the turns", async () => {
    const broken = simHost.eachTurn(() => {
      throw new Error("planned");
    });
    await expect(broken).rejects.toThrow("planned");
  });
});

describe("an uncaught error", () => {
  const createError = (): Error => new Error("uncaught");
  const ERRORS: Record<string, () => void> = {
    "thrown from a timer": () => {
      throw createError();
    },
    "rejected without a handler": () => void Promise.reject(createError()),
    "rejected without a handler, some promises later": () =>
      void Promise.resolve()
        .then(() => undefined)
        .then(() => Promise.reject(createError())),
    "thrown from a microtask": () =>
      queueMicrotask(() => {
        throw createError();
      }),
  };

  /**
   * A host on which every run has an uncaught error in the given turn, or in its last turn if that
   * is earlier.
   */
  const failingHost = (fail: () => void, at: number): Host => ({
    ...simHost,
    eachTurn: (step) => {
      let turns = 0;
      return simHost.eachTurn(() => {
        const goesOn = step();
        turns += 1;
        if (turns === at || (!goesOn && turns < at)) fail();
        return goesOn;
      });
    },
  });

  test.each(Object.entries(ERRORS))(
    "%s is a violation of its run, with its stack, and other runs continue",
    async (_, fail) => {
      let runs = 0;
      const broken = failingHost(fail, 300);
      const host: Host = {
        ...simHost,
        // The second run is repeated for its stack.
        eachTurn: (step) => {
          runs += 1;
          return (runs === 2 || runs === 3 ? broken : simHost).eachTurn(step);
        },
      };
      const before = listeners();
      const swarm = { from: 4, to: 6, store: "memory", host, failFast: false, twice: false };
      const { findings, seeds } = await runSwarm(swarm);
      expect(seeds).toBe(3);
      expect(findings.map(({ seed }) => seed)).toEqual([5]);
      expect(findings[0]?.violations).toHaveLength(1);
      const [{ invariant, message } = { invariant: "", message: "" }] =
        findings[0]?.violations ?? [];
      expect(invariant).toBe("errors");
      expect(message).toMatch(/^Error: uncaught at .*sim\/test\/swarm\.test\.ts/);
      expect(listeners()).toEqual(before);
    },
  );

  test("outside of a run ends the swarm and names the seed", async () => {
    let isolations = 0;
    const host: Host = {
      ...simHost,
      // The first isolation is for all runs together, the others for one each.
      isolate: () => {
        isolations += 1;
        if (isolations === 3) throw createError();
        return simHost.isolate();
      },
    };
    const swarm = { from: 4, to: 6, store: "memory", host, failFast: false, twice: false };
    await expect(runSwarm(swarm)).rejects.toMatchObject({
      message: "Seed 5 on memory could not be checked.",
      cause: { message: "uncaught" },
    });
  });

  test("in the last turn of a run belongs to that run", async () => {
    const host = failingHost(() => void Promise.reject(createError()), Number.MAX_SAFE_INTEGER);
    const { verdict } = await runSeed(4, "memory", host);
    expect(verdict.violations).toMatchObject([{ invariant: "errors" }]);
  });

  test("is shrunk like any other violation, and the smaller run replays it", async () => {
    // The error comes after the planned end of the faults, in a run whose faults last longer.
    const host = failingHost(() => void Promise.reject(createError()), 250);
    const found = await runSeed(57, "memory", host);
    expect(found.result.virtualMs).toBeGreaterThan(createPlan(57, "memory").faultyMs);
    // Otherwise the smaller runs would be calm before the error.
    expect(found.plan.faultyMs).toBeGreaterThan(found.result.virtualMs);
    const { changes, outcome } = await shrink(found, host);
    expect(outcome.plan.faults.length).toBeLessThan(found.plan.faults.length);
    const again = await runSeed(57, "memory", host, changes);
    expect(again.verdict.violations).toMatchObject([{ invariant: "errors" }]);
    expect(again.result.trace.hash()).toBe(outcome.result.trace.hash());
  });

  test("goes to the original listeners after a run", async () => {
    const before = listeners();
    let during: unknown;
    await simHost.eachTurn(() => {
      during = listeners();
      return false;
    });
    expect(during).not.toEqual(before);
    expect(listeners()).toEqual(before);
  });
});

function listeners(): unknown[] {
  return [
    ...process.rawListeners("uncaughtException"),
    ...process.rawListeners("unhandledRejection"),
  ];
}

test("a run with too few faults or grants or without stale writes is invalid", async () => {
  const { plan, result } = await runSeed(1, "memory", simHost);
  expect(judge(plan, result).invalid).toEqual([]);
  const { faultCount } = result.trace;
  expect(judge({ ...plan, faultsMin: faultCount + 1 }, result).invalid).toEqual([
    `only ${faultCount} faults`,
  ]);
  const empty = { ...result, trace: { ...result.trace, events: [] } as never };
  expect(judge(plan, empty).invalid).toEqual(["only 0 grants", "no stale write reached a guard"]);
});
