// Scheduled runs: one run of a fire as long as the machines' clocks differ by less than half of the window, fires in order, and
// none left out once the world is calm.

import { type Plan, settledMs } from "../faults/plan.ts";
import { WINDOW_MS } from "../workloads/once.ts";
import type { Traced } from "../world/trace.ts";
import type { MakeChecker } from "./checker.ts";

/** The store's clock counts the window, and it may be a thousandth off. */
const BOUND_MS = WINDOW_MS / 2 - WINDOW_MS / 100;

type Fire = Extract<Traced, { kind: "fire" }>;

export const oneRunAFire: MakeChecker = () => {
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
        // Only a clock so far ahead of this one's can have had its claim forgotten before the fire is late here.
        if (run.fire < fire || run.offMs - offMs >= BOUND_MS) continue;
        const what = run.fire === fire ? "once more than" : "behind a later one of";
        report("once", `${who} runs fire ${fire} ${what} ${run.who}`);
      }
      // The clock may have been set between the call and the run; the claim was made in between.
      runs.push({ fire, who, offMs: Math.max(offMs, called.get(who) ?? offMs) });
    },
  };
};

/** What died in the faults holds the key until then; whoever calls later gets it while it waits. */
export function firesFrom(plan: Plan): number {
  return plan.faultyMs + settledMs(plan) + 1_000;
}

/** Who is told to stop may leave a fire to nobody. */
const LAST_MS = 800;

export const everyFireRuns: MakeChecker = (plan) => {
  const waiting: Fire[] = [];
  const [from, until] = [firesFrom(plan), plan.faultyMs + plan.calmMs - LAST_MS];
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
          report("once", `${who} called fire ${fire} in the calm, and nobody ran it`);
    },
  };
};
