// Advances the guards of a new lease to its token before the caller gets the lease. The guards then
// refuse the former holder immediately, not only after the first write of the new one. If a guard
// cannot be advanced, the lease is released: a caller that names a guard must not act without it.

import type { Clock } from "../async/clock.ts";
import { linkSignals, orAborted } from "../async/signals.ts";
import { GuardUnavailableError, InvalidArgumentError } from "../core/errors.ts";
import type { Lease } from "./lease.ts";

/** A guard, as far as acquiring needs it. Every guard of `tenure/guards/` implements it. */
export interface Advanceable {
  /** Moves the highest token up to that of the lease. The holder waits at most `limitMs`. */
  advance(lease: Lease, options: { readonly limitMs: number }): unknown;
}

export interface AdvanceParts {
  readonly clock: Clock;
  /** Abort when the caller no longer wants the lease, or the Tenure closes. */
  readonly signals: readonly (AbortSignal | undefined)[];
}

/** Returns the lease when all guards are advanced; otherwise releases it and throws the reason. */
export async function advanceAll<L extends Lease>(
  { clock, signals }: AdvanceParts,
  lease: L,
  guards: readonly Advanceable[],
): Promise<L> {
  const { resource, safeUntil } = lease;
  const late = new AbortController();
  const giveUp = (): void => late.abort(tookTooLong(resource));
  // The limit is the current deadline. Renewals move the deadline, so a later reading would let a
  // guard that hangs block the acquisition forever.
  const limitMs = safeUntil - clock.now();
  const timer = clock.setTimer(giveUp, limitMs, { keepAlive: true });
  const { signal, unlink } = linkSignals(lease.signal, late.signal, ...signals);
  try {
    const advancing = guards.map(async (guard) => guard.advance(lease, { limitMs }));
    await orAborted(Promise.all(advancing), signal);
    signal.throwIfAborted();
    // A process that was stopped may see the guard's answer before the timer of its deadline fires.
    if (clock.now() >= lease.safeUntil) lease.check();
    return lease;
  } catch (error) {
    // A failed release must not hide the reason. The ttl frees the resource at the latest.
    await lease.release().catch(() => undefined);
    throw error;
  } finally {
    timer.cancel();
    unlink();
  }
}

function tookTooLong(resource: string): GuardUnavailableError {
  const detail = "it was not advanced while the lease was certain, so the lease was released";
  return GuardUnavailableError.from({ resource, detail, applied: "unknown" });
}

export function checkGuards(guards: unknown): readonly Advanceable[] {
  if (guards === undefined) return [];
  const canAdvance = (guard: unknown): boolean =>
    typeof (guard as Partial<Advanceable> | null | undefined)?.advance === "function";
  if (Array.isArray(guards) && guards.every(canAdvance)) return guards as Advanceable[];
  throw new InvalidArgumentError(
    "`guards` must be an array of guards, such as [sqliteGuard(database)]: each with an advance(lease).",
  );
}
