// The plain use: wait for the resource, work, give it back. Sometimes the release comes while work is still in flight.

import { drawHabits, giveBack, untilStopped, type Workload, welcome, work } from "./workload.ts";

export function lock(resource: string): Workload {
  return (day) => {
    const { tenure, chance, program, stopping, guard } = day;
    return untilStopped(day, async () => {
      const habits = drawHabits(chance);
      const lease = await tenure.acquire(resource, {
        waitMs: chance.between(500, 30_000),
        signal: stopping,
        whileInDoubt: habits.inDoubt ? "act" : "stop",
        guards: habits.guarded && chance.isTrue(0.5) ? [guard] : [],
      });
      welcome(day, lease);
      const pieces = 1 + chance.below(3);
      for (let piece = 1; piece < pieces; piece += 1) {
        await work(day, lease, habits);
        await program.sleep(chance.between(0, 100));
      }
      // The last piece: awaited, or cut short by a release that has to wait for it.
      const last = work(day, lease, habits);
      last.catch(() => undefined);
      if (chance.isTrue(0.5)) await last;
      else await program.sleep(chance.between(0, 200));
      const released = giveBack(day, lease);
      // A lease that is being given back takes no new work.
      work(day, lease, habits).catch(() => undefined);
      await released;
      await program.sleep(chance.between(0, 300));
    });
  };
}
