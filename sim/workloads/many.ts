// One session with many leases: taken without waiting, kept for a while, given back one by one.

import type { Lease } from "../../src/holder/lease.ts";
import { drawHabits, giveBack, untilStopped, type Workload, welcome, work } from "./workload.ts";

const MANY = 6;

export const many: Workload = (day) => {
  const { tenure, chance, program } = day;
  const held = new Map<string, Lease>();
  return untilStopped(day, async () => {
    const resource = `many/${chance.below(MANY)}`;
    const own = held.get(resource);
    const habits = { ...drawHabits(chance), inDoubt: false };
    if (own === undefined) {
      const lease = await tenure.tryAcquire(resource);
      if (lease !== undefined) {
        held.set(resource, lease);
        welcome(day, lease);
      }
    } else if (own.signal.aborted || chance.isTrue(0.3)) {
      held.delete(resource);
      await giveBack(day, own);
    } else {
      await work(day, own, habits);
    }
    await program.sleep(chance.between(100, 1_000));
  });
};
