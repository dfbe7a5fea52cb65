// A schedule on every machine: each fire is to be run by one of them. Everybody goes by its own wall clock, which is a little
// off, and may be set.

import type { Lease } from "../../src/holder/lease.ts";
import type { Plan } from "../faults/plan.ts";
import type { TraceEventData } from "../world/trace.ts";
import { drawHabits, repeatUntilStopped, type Workload, recordLease } from "./workload.ts";

const KEY = "job";
const EVERY_MS = 2_000;
/** Short against the day, so that claims run out in it; half of it is more than what the clocks differ by at first. */
export const WINDOW_MS = 3_000;

/** On one day in five, for the sake of speed: a run takes seven requests. */
export function hasScheduledJobs({ seed }: Plan): boolean {
  return seed % 5 === 0;
}

export const once: Workload = (day) => {
  const { tenure, chance, program } = day;
  const { clocks } = program;
  let last = Number.NaN;
  return repeatUntilStopped(day, async () => {
    const untilNextMs = EVERY_MS - (clocks.wallNow() % EVERY_MS);
    await program.sleep(untilNextMs + (chance.isTrue(0.3) ? chance.between(0, 1_000) : 0));
    // Asked again: the clock may have been set meanwhile.
    const fire = Math.floor(clocks.wallNow() / EVERY_MS) * EVERY_MS;
    if (fire === last) return;
    last = fire;
    const note = (step: Extract<TraceEventData, { kind: "fire" }>["step"]): void =>
      day.note({ kind: "fire", fire, step, wall: clocks.wallNow() });
    note("called");
    const habits = { ...drawHabits(chance), inDoubt: false };
    const work = async (lease: Lease): Promise<void> => {
      const { resource, token } = lease;
      recordLease(day, lease);
      day.note({ kind: "workBegan", resource, token, actsInDoubt: false });
      note("began");
      try {
        for (let acts = 1 + chance.below(2); acts > 0; acts -= 1) {
          day.act(lease, habits);
          await program.sleep(chance.between(5, 300));
        }
      } finally {
        day.note({ kind: "workEnded", resource, token });
      }
    };
    const result = await tenure.once(KEY, { atMs: fire, windowMs: WINDOW_MS }, work);
    note(result.ran ? "ran" : result.reason);
  });
};
