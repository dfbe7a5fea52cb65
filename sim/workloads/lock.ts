// The plain use: wait for the resource, work, give it back. Sometimes the release comes while work is still in flight.

import type { Lease } from "../../src/holder/lease.ts";
import {
  type Day,
  drawHabits,
  releaseLease,
  type Habits,
  repeatUntilStopped,
  type Workload,
  recordLease,
  work,
} from "./workload.ts";

export function lock(resource: string): Workload {
  return (day) => {
    const { tenure, chance, program, stopping, guard } = day;
    return repeatUntilStopped(day, async () => {
      const habits = drawHabits(chance);
      const waitMs = chance.between(500, 30_000);
      const guards = habits.guarded && chance.isTrue(0.5) ? [guard] : [];
      const lease = await tenure.acquire(resource, {
        ...{ waitMs, guards, signal: stopping },
        whileInDoubt: habits.inDoubt ? "act" : "stop",
      });
      recordLease(day, lease, guards.length > 0);
      try {
        await pieces(day, lease, habits);
      } finally {
        const released = releaseLease(day, lease);
        // A lease that is being given back takes no new work.
        work(day, lease, habits).catch(() => undefined);
        await released;
      }
      await program.sleep(chance.between(0, 600));
    });
  };
}

/** The last piece is awaited, or cut short by a release that has to wait for it. */
async function pieces(day: Day, lease: Lease, habits: Habits): Promise<void> {
  const { chance, program } = day;
  for (let left = chance.below(3); left > 0; left -= 1) {
    // Sometimes two things at once: both must have settled before the lease is given back.
    const beside = chance.isTrue(0.3) ? work(day, lease, habits) : undefined;
    beside?.catch(() => undefined);
    await work(day, lease, habits);
    await program.sleep(chance.between(0, 100));
  }
  const last = work(day, lease, habits);
  last.catch(() => undefined);
  if (chance.isTrue(0.5)) await last;
  else await program.sleep(chance.between(0, 200));
}
