// Workload: a scheduled job. Every program calls `tenure.once` at each scheduled time by its own
// wall clock, which is slightly off and may be set. One of them should run the job.

import type { Lease } from "../../src/holder/lease.ts";
import type { Plan } from "../faults/plan.ts";
import type { TraceEventData } from "../world/trace.ts";
import { drawHabits, recordLease, repeatUntilStopped, type Workload } from "./workload.ts";

const KEY = "job";
const EVERY_MS = 2_000;
/**
 * Short enough that claims expire during a run. Half of it exceeds the initial difference of the
 * clocks.
 */
export const WINDOW_MS = 3_000;

/** In one run of five only, because each job takes seven requests. */
export function hasScheduledJobs({ seed }: Plan): boolean {
  return seed % 5 === 0;
}

export const once: Workload = (context) => {
  const { tenure, chance, program } = context;
  const { clocks } = program;
  let last = Number.NaN;
  return repeatUntilStopped(context, async () => {
    const untilNextMs = EVERY_MS - (clocks.wallNow() % EVERY_MS);
    await program.sleep(untilNextMs + (chance.isTrue(0.3) ? chance.between(0, 1_000) : 0));
    // Read the clock again: it may have been set during the sleep.
    const fire = Math.floor(clocks.wallNow() / EVERY_MS) * EVERY_MS;
    if (fire === last) return;
    last = fire;
    const note = (step: Extract<TraceEventData, { kind: "fire" }>["step"]): void =>
      context.note({ kind: "fire", fire, step, wall: clocks.wallNow() });
    note("called");
    const habits = { ...drawHabits(chance), inDoubt: false };
    const work = async (lease: Lease): Promise<void> => {
      const { resource, token } = lease;
      recordLease(context, lease);
      context.note({ kind: "workBegan", resource, token, actsInDoubt: false });
      note("began");
      try {
        for (let acts = 1 + chance.below(2); acts > 0; acts -= 1) {
          context.act(lease, habits);
          await program.sleep(chance.between(5, 300));
        }
      } finally {
        context.note({ kind: "workEnded", resource, token });
      }
    };
    const result = await tenure.once(KEY, { atMs: fire, windowMs: WINDOW_MS }, work);
    note(result.ran ? "ran" : result.reason);
  });
};
