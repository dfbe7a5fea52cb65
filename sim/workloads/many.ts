// Workload: many leases in one session. Takes them without waiting, keeps them for a while and
// releases them one by one.

import type { Lease } from "../../src/holder/lease.ts";
import {
  drawHabits,
  recordLease,
  releaseLease,
  repeatUntilStopped,
  type Workload,
  work,
} from "./workload.ts";

const RESOURCES = 6;

export const many: Workload = (context) => {
  const { tenure, chance, program } = context;
  const held = new Map<string, Lease>();
  return repeatUntilStopped(context, async () => {
    const resource = `many/${chance.below(RESOURCES)}`;
    const own = held.get(resource);
    const habits = { ...drawHabits(chance), inDoubt: false };
    if (own === undefined) {
      const lease = await tenure.tryAcquire(resource);
      if (lease !== undefined) {
        held.set(resource, lease);
        recordLease(context, lease);
      }
    } else if (own.signal.aborted || chance.isTrue(0.3)) {
      held.delete(resource);
      await releaseLease(context, own);
    } else {
      await work(context, own, habits);
    }
    await program.sleep(chance.between(100, 1_000));
  });
};
