// The interface of a workload and helpers for workloads. A workload is a loop in a program under
// test that uses Tenure as an application would, until the program has to stop.

import { isTenureError } from "../../src/core/errors.ts";
import type { Advanceable } from "../../src/holder/advance.ts";
import type { Lease } from "../../src/holder/lease.ts";
import type { Tenure } from "../../src/tenure.ts";
import type { Plan } from "../faults/plan.ts";
import type { Chance } from "../world/chance.ts";
import type { Program } from "../world/program.ts";
import type { TraceEventData } from "../world/trace.ts";

export interface WorkloadContext {
  readonly tenure: Tenure;
  readonly program: Program;
  readonly plan: Plan;
  readonly chance: Chance;
  readonly stopping: AbortSignal;
  /** The guard of the resources, for acquire({ guards }). */
  readonly guard: Advanceable;
  /** Checks the lease, then writes to the resource. Returns false if the check failed. */
  act(lease: Lease, how: { readonly guarded: boolean; readonly inDoubt: boolean }): boolean;
  note(data: TraceEventData): void;
}

export type Workload = (context: WorkloadContext) => Promise<void>;

/** How a program treats one lease. */
export interface Habits {
  readonly guarded: boolean;
  readonly inDoubt: boolean;
  /** Continues for a while after the lease's signal was aborted. */
  readonly ignoresSignal: boolean;
}

export function drawHabits(chance: Chance): Habits {
  return {
    guarded: chance.isTrue(0.85),
    inDoubt: chance.isTrue(0.25),
    ignoresSignal: chance.isTrue(0.15),
  };
}

/** Records that the program has the lease, and later the end of the lease. */
export function recordLease(context: WorkloadContext, lease: Lease, withGuards = false): void {
  const { resource, token, safeUntil } = lease;
  const { program } = context;
  const { clocks } = program;
  context.note({ kind: "held", withGuards, resource, token, now: clocks.now(), safeUntil });
  const recordEnd = (): void => {
    const { reason } = lease.signal.reason as { readonly reason: string };
    const { steadySince } = program;
    const { jumpedAt } = clocks;
    const now = clocks.now();
    context.note({ kind: "over", resource, token, reason, now, steadySince, jumpedAt });
  };
  if (lease.signal.aborted) recordEnd();
  else lease.signal.addEventListener("abort", recordEnd, { once: true });
}

/** Acts a few times under the lease, as one piece of work. */
export function work(context: WorkloadContext, lease: Lease, habits: Habits): Promise<void> {
  const { resource, token } = lease;
  const { chance, program } = context;
  return lease.run(async () => {
    context.note({ kind: "workBegan", resource, token, actsInDoubt: habits.inDoubt });
    try {
      for (let acts = 1 + chance.below(4); acts > 0; acts -= 1) {
        context.act(lease, habits);
        await program.sleep(chance.between(20, 900));
        if (lease.signal.aborted && !habits.ignoresSignal) return;
      }
    } finally {
      context.note({ kind: "workEnded", resource, token });
    }
  });
}

export async function releaseLease(context: WorkloadContext, lease: Lease): Promise<void> {
  const { resource, token } = lease;
  const drainMs = context.chance.isTrue(0.5) ? undefined : context.chance.between(0, 1_000);
  context.note({ kind: "drained", resource, token, drainMs });
  const result = await lease.release({ drainMs });
  context.note({ kind: "releasedAs", resource, token, result });
}

/** Errors that an application has to expect under faults. Any other error is a bug in Tenure. */
export function isExpectedError(error: unknown): boolean {
  const expected = [
    "ACQUIRE_TIMEOUT",
    "LEASE_LOST",
    "LEASE_IN_DOUBT",
    "DRAINING",
    "STALE_TOKEN",
    "STORE_UNAVAILABLE",
    "GUARD_UNAVAILABLE",
    "CLOSED",
  ] as const;
  return expected.some((code) => isTenureError(error, code));
}

/** Repeats `round` until the program has to stop. An expected error only delays the next round. */
export async function repeatUntilStopped(
  context: WorkloadContext,
  round: () => Promise<void>,
): Promise<void> {
  const { chance, program, stopping } = context;
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
