// Goal: the simulator notices a day that cannot be repeated, makes a finding of whatever nobody
// caught on a day, and counts one on which nothing was learned as invalid. Method: run seeds; make
// one differ; throw in the middle. Many seeds: sim-smoke-*.test.ts.
import { describe, expect, test } from "vitest";
import { judge } from "../checkers/judge.ts";
import { applyChanges, createPlan, FAULT_KINDS } from "../faults/plan.ts";
import { simHost } from "../host/sim-host.ts";
import { MODEL_NAMES, runSeed } from "../run.ts";
import { shrink } from "../shrink.ts";
import { runSwarm } from "../swarm.ts";
import type { Host } from "../world/world.ts";

describe("determinism", () => {
  test.each(MODEL_NAMES)("on %s another seed gives another day", async (store) => {
    const hashes = new Set<string>();
    for (let seed = 1; seed <= 8; seed += 1)
      hashes.add((await runSeed(seed, store, simHost)).result.trace.hash());
    expect(hashes.size).toBe(8);
  });

  test("a day that is not the same the second time is a finding", async () => {
    let days = 0;
    const host: Host = {
      ...simHost,
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
      const { kinds } = createPlan(seed, "memory");
      expect(new Set(kinds).size).toBeGreaterThanOrEqual(8);
      for (const kind of [...kinds, ...createPlan(seed, "sqlite").kinds]) seen.add(kind);
    }
    expect([...seen].sort()).toEqual([...FAULT_KINDS].sort());
  });

  test("clocks stay within the bound that the holders are told", () => {
    for (let seed = 1; seed <= 300; seed += 1) {
      const { rates, ttlMs, clockErrorMs } = createPlan(seed, "memory");
      const [store = 1, ...others] = rates;
      for (const rate of others)
        expect(Math.abs(rate / store - 1) * ttlMs).toBeLessThan(clockErrorMs);
    }
  });

  test("what is left out does not happen", async () => {
    const without = ["loss", "slow", "crash", "duplicate"] as const;
    const { result } = await runSeed(3, "memory", simHost, { without, keep: [0, 2] });
    for (const kind of without) expect(result.trace.faults.has(kind)).toBe(false);
    expect(
      applyChanges(createPlan(3, "memory"), { without: [], keep: [0, 2] }).faults,
    ).toHaveLength(2);
  });
});

describe("turns", () => {
  test("every promise that can settle has settled before the next turn, and before the end", async () => {
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

  test("what a step throws ends the turns", async () => {
    const broken = simHost.eachTurn(() => {
      throw new Error("planned");
    });
    await expect(broken).rejects.toThrow("planned");
  });
});

describe("what nobody catches", () => {
  const stray = (): Error => new Error("stray");
  const WAYS: Record<string, () => void> = {
    "thrown from a timer": () => {
      throw stray();
    },
    "rejected and forgotten": () => void Promise.reject(stray()),
    "rejected and forgotten, some promises later": () =>
      void Promise.resolve()
        .then(() => undefined)
        .then(() => Promise.reject(stray())),
    "thrown from a microtask": () =>
      queueMicrotask(() => {
        throw stray();
      }),
  };

  /**
   * The real host, but that something goes astray in the given turn of every day that comes so far.
   */
  const astray = (goAstray: () => void, at: number): Host => ({
    ...simHost,
    eachTurn: (step) => {
      let turns = 0;
      return simHost.eachTurn(() => {
        const goesOn = step();
        turns += 1;
        if (turns === at || (!goesOn && turns < at)) goAstray();
        return goesOn;
      });
    },
  });

  test.each(Object.entries(WAYS))(
    "%s is a violation of its day, with its place, and the others go on",
    async (_, goAstray) => {
      let days = 0;
      const broken = astray(goAstray, 300);
      const host: Host = {
        ...simHost,
        // The second day is run once more for its stack.
        eachTurn: (step) => {
          days += 1;
          return (days === 2 || days === 3 ? broken : simHost).eachTurn(step);
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
      expect(message).toMatch(/^Error: stray at .*sim\.test\.ts/);
      expect(listeners()).toEqual(before);
    },
  );

  test("what fails around a day, and not on it, ends the run with the day's number", async () => {
    let closings = 0;
    const host: Host = {
      ...simHost,
      // The first is for all days together, the others for one each.
      isolate: () => {
        closings += 1;
        if (closings === 3) throw stray();
        return simHost.isolate();
      },
    };
    const swarm = { from: 4, to: 6, store: "memory", host, failFast: false, twice: false };
    await expect(runSwarm(swarm)).rejects.toMatchObject({
      message: "Seed 5 on memory could not be judged.",
      cause: { message: "stray" },
    });
  });

  test("in the last turn of a day it is still that day's", async () => {
    const host = astray(() => void Promise.reject(stray()), Number.MAX_SAFE_INTEGER);
    const { verdict } = await runSeed(4, "memory", host);
    expect(verdict.violations).toMatchObject([{ invariant: "errors" }]);
  });

  test("it is shrunk like any other, and the smaller day shows it again", async () => {
    // Late, in a day that was faulty for longer than it was planned to be.
    const host = astray(() => void Promise.reject(stray()), 250);
    const found = await runSeed(57, "memory", host);
    expect(found.result.virtualMs).toBeGreaterThan(createPlan(57, "memory").faultyMs);
    // Otherwise the smaller days would be calm before it comes to pass.
    expect(found.plan.faultyMs).toBeGreaterThan(found.result.virtualMs);
    const { changes, outcome } = await shrink(found, host);
    expect(outcome.plan.faults.length).toBeLessThan(found.plan.faults.length);
    const again = await runSeed(57, "memory", host, changes);
    expect(again.verdict.violations).toMatchObject([{ invariant: "errors" }]);
    expect(again.result.trace.hash()).toBe(outcome.result.trace.hash());
  });

  test("outside of a day it goes where it went before", async () => {
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

test("a day without enough faults, without grants or stale writes is invalid", async () => {
  const { plan, result } = await runSeed(1, "memory", simHost);
  expect(judge(plan, result).invalid).toEqual([]);
  const { faultCount } = result.trace;
  expect(judge({ ...plan, faultsMin: faultCount + 1 }, result).invalid).toEqual([
    `only ${faultCount} faults`,
  ]);
  const empty = { ...result, trace: { ...result.trace, events: [] } as never };
  expect(judge(plan, empty).invalid).toEqual([
    "only 0 grants",
    "nobody tried a stale write at a guard",
  ]);
});
