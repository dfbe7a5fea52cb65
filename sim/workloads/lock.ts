// Workload: a lock. Waits for the resource, works and releases, sometimes with work still in
// flight.

import type { Lease } from "../../src/holder/lease.ts";
import {
  drawHabits,
  type Habits,
  recordLease,
  releaseLease,
  repeatUntilStopped,
  type Workload,
  type WorkloadContext,
  work,
} from "./workload.ts";

export function lock(resource: string): Workload {
  return (context) => {
    const { tenure, chance, program, stopping, guard } = context;
    return repeatUntilStopped(context, async () => {
      const habits = drawHabits(chance);
      const waitMs = chance.between(500, 30_000);
      const guards = habits.guarded && chance.isTrue(0.5) ? [guard] : [];
      const lease = await tenure.acquire(resource, {
        waitMs,
        guards,
        signal: stopping,
        whileInDoubt: habits.inDoubt ? "act" : "stop",
      });
      recordLease(context, lease, guards.length > 0);
      try {
        await workInPieces(context, lease, habits);
      } finally {
        const released = releaseLease(context, lease);
        // New work during the release must be rejected.
        work(context, lease, habits).catch(() => undefined);
        await released;
      }
      await program.sleep(chance.between(0, 600));
    });
  };
}

/** Works in pieces. In half of the cases the last piece is still in flight at the release. */
async function workInPieces(context: WorkloadContext, lease: Lease, habits: Habits): Promise<void> {
  const { chance, program } = context;
  for (let left = chance.below(3); left > 0; left -= 1) {
    // Sometimes two pieces run at once. Both must settle before the release.
    const second = chance.isTrue(0.3) ? work(context, lease, habits) : undefined;
    second?.catch(() => undefined);
    await work(context, lease, habits);
    await program.sleep(chance.between(0, 100));
  }
  const last = work(context, lease, habits);
  last.catch(() => undefined);
  if (chance.isTrue(0.5)) await last;
  else await program.sleep(chance.between(0, 200));
}
