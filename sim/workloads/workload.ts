// What a workload is given, and what the workloads share. Each is one endless loop of a program that uses Tenure as its
// users would; it ends when the program is told to stop.

import { isTenureError } from "../../src/core/errors.ts";
import type { Advanceable } from "../../src/holder/advance.ts";
import type { Lease } from "../../src/holder/lease.ts";
import type { Tenure } from "../../src/tenure.ts";
import type { Plan } from "../faults/plan.ts";
import type { Chance } from "../world/chance.ts";
import type { Program } from "../world/program.ts";
import type { TraceEventData } from "../world/trace.ts";

export interface Day {
  readonly tenure: Tenure;
  readonly program: Program;
  readonly plan: Plan;
  readonly chance: Chance;
  readonly stopping: AbortSignal;
  /** The guard of the resources, as acquire({ guards }) takes it. */
  readonly guard: Advanceable;
  /** Checks the lease and, if it may, writes. False: it may not. */
  act(lease: Lease, how: { readonly guarded: boolean; readonly inDoubt: boolean }): boolean;
  note(happening: TraceEventData): void;
}

export type Workload = (day: Day) => Promise<void>;

/** How a program treats one lease. */
export interface Habits {
  readonly guarded: boolean;
  readonly inDoubt: boolean;
  /** Goes on for a while although its signal has aborted. */
  readonly deaf: boolean;
}

export function drawHabits(chance: Chance): Habits {
  return {
    guarded: chance.isTrue(0.85),
    inDoubt: chance.isTrue(0.25),
    deaf: chance.isTrue(0.15),
  };
}

/** Notes that the lease is there, and its end when it comes. */
export function recordLease(day: Day, lease: Lease, withGuards = false): void {
  const { resource, token, safeUntil } = lease;
  const { program } = day;
  const { clocks } = program;
  day.note({ kind: "held", withGuards, resource, token, now: clocks.now(), safeUntil });
  const over = (): void => {
    const { reason } = lease.signal.reason as { readonly reason: string };
    const { steadySince } = program;
    const { jumpedAt } = clocks;
    const now = clocks.now();
    day.note({ kind: "over", resource, token, reason, now, steadySince, jumpedAt });
  };
  if (lease.signal.aborted) over();
  else lease.signal.addEventListener("abort", over, { once: true });
}

/** Some acts under the lease, as one piece of work. Resolves when it is through, or the lease over. */
export function work(day: Day, lease: Lease, habits: Habits): Promise<void> {
  const { resource, token } = lease;
  const { chance, program } = day;
  return lease.run(async () => {
    day.note({ kind: "workBegan", resource, token, actsInDoubt: habits.inDoubt });
    try {
      for (let acts = 1 + chance.below(4); acts > 0; acts -= 1) {
        day.act(lease, habits);
        await program.sleep(chance.between(20, 900));
        if (lease.signal.aborted && !habits.deaf) return;
      }
    } finally {
      day.note({ kind: "workEnded", resource, token });
    }
  });
}

export async function releaseLease(day: Day, lease: Lease): Promise<void> {
  const { resource, token } = lease;
  const drainMs = day.chance.isTrue(0.5) ? undefined : day.chance.between(0, 1_000);
  day.note({ kind: "drained", resource, token, drainMs });
  const result = await lease.release({ drainMs });
  day.note({ kind: "releasedAs", resource, token, result });
}

/** What may happen to anybody: waits run out, leases are lost, stores are away. Everything else is a fault of ours. */
export function isExpectedError(error: unknown): boolean {
  const foreseen = [
    "ACQUIRE_TIMEOUT",
    "LEASE_LOST",
    "LEASE_IN_DOUBT",
    "DRAINING",
    "STALE_TOKEN",
    "STORE_UNAVAILABLE",
    "GUARD_UNAVAILABLE",
    "CLOSED",
  ] as const;
  return foreseen.some((code) => isTenureError(error, code));
}

/** Again and again until the program stops; what is foreseen is only a reason to try again. */
export async function repeatUntilStopped(day: Day, round: () => Promise<void>): Promise<void> {
  const { chance, program, stopping } = day;
  while (!stopping.aborted) {
    try {
      await round();
    } catch (error) {
      if (stopping.aborted) return;
      if (!isExpectedError(error)) throw error;
      await program.sleep(chance.between(10, 300));
    }
  }
}
