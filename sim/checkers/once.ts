// Checks scheduled jobs (`tenure.once`). Each scheduled time, called a fire, runs at most once as
// long as the clocks of the machines differ by less than half of the window. Fires run in order,
// and in the calm phase every fire runs.

import { type Plan, settlingMs } from "../faults/plan.ts";
import { WINDOW_MS } from "../workloads/once.ts";
import type { TraceEvent } from "../world/trace.ts";
import type { MakeChecker } from "./checker.ts";

/** The store measures the window by its own clock, which may be slightly off. */
const BOUND_MS = WINDOW_MS / 2 - WINDOW_MS / 100;

type Fire = Extract<TraceEvent, { kind: "fire" }>;

export const oneRunPerFire: MakeChecker = () => {
  const runs: { readonly fire: number; readonly who: string; readonly offMs: number }[] = [];
  const called = new Map<string, number>();
  return {
    on(event, _facts, report) {
      if (event.kind !== "fire") return;
      const { fire, who } = event;
      const offMs = event.wall - event.at;
      if (event.step === "called") called.set(who, offMs);
      if (event.step !== "began") return;
      for (const run of runs) {
        // The other program's marker lasts for one window. This program does not start a fire that
        // is older than half a window by its own clock. A second run is therefore possible only if
        // the other clock was ahead by at least half a window.
        if (run.fire < fire || run.offMs - offMs >= BOUND_MS) continue;
        const what = run.fire === fire ? "which already ran" : "after a later one ran";
        report("once", `${who} runs fire ${fire}, ${what} on ${run.who}`);
      }
      // The marker is written between the call and the run, and the clock may be set in between.
      runs.push({ fire, who, offMs: Math.max(offMs, called.get(who) ?? offMs) });
    },
  };
};

/**
 * The true instant from which every fire must run. Until then, a program that crashed during the
 * faults may still hold the key.
 */
export function fireCheckStart(plan: Plan): number {
  return plan.faultyMs + settlingMs(plan) + 1_000;
}

/** A program that is asked to stop may skip its last fire. */
const LAST_MS = 800;

export const everyFireRuns: MakeChecker = (plan) => {
  const waiting: Fire[] = [];
  const [from, until] = [fireCheckStart(plan), plan.faultyMs + plan.calmMs - LAST_MS];
  let latest = Number.NEGATIVE_INFINITY;
  return {
    on(event) {
      if (event.kind !== "fire") return;
      if (event.step === "began") latest = Math.max(latest, event.fire);
      if (event.step === "called" && event.at > from && event.at < until) waiting.push(event);
    },
    end(_facts, report) {
      for (const { who, fire } of waiting)
        if (fire > latest)
          report("once", `${who} called fire ${fire} in the calm phase, and no program ran it`);
    },
  };
};
