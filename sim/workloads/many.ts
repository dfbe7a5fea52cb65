// One session with many leases: taken without waiting, kept for a while, given back one by one.

import type { Lease } from "../../src/holder/lease.ts";
import { drawHabits, releaseLease, repeatUntilStopped, type Workload, recordLease, work } from "./workload.ts";

const MANY = 6;

export const many: Workload = (day) => {
  const { tenure, chance, program } = day;
  const held = new Map<string, Lease>();
  return repeatUntilStopped(day, async () => {
    const resource = `many/${chance.below(MANY)}`;
    const own = held.get(resource);
    const habits = { ...drawHabits(chance), inDoubt: false };
    if (own === undefined) {
      const lease = await tenure.tryAcquire(resource);
      if (lease !== undefined) {
        held.set(resource, lease);
        recordLease(day, lease);
      }
    } else if (own.signal.aborted || chance.isTrue(0.3)) {
      held.delete(resource);
      await releaseLease(day, own);
    } else {
      await work(day, own, habits);
    }
    await program.sleep(chance.between(100, 1_000));
  });
};
