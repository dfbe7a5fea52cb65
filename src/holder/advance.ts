// Between a grant and the caller: every guard is advanced to the new token, so that the former holder is refused from
// here on and not only from the first write. If one cannot be advanced, the lease is given back: whoever named a guard
// wants nothing done that it does not watch over.

import type { Clock } from "../async/clock.ts";
import { linkSignals, orAborted } from "../async/signals.ts";
import { GuardUnavailableError, InvalidArgumentError } from "../core/errors.ts";
import type { Lease } from "./lease.ts";

/** What the holder asks of a guard; every guard of `tenure/guards/` has it. */
export interface Advanceable {
  /** `limitMs`: how long the holder waits for the answer. */
  advance(lease: Lease, options: { readonly limitMs: number }): unknown;
}

export interface AdvanceParts {
  readonly clock: Clock;
  /** Aborts when the caller does not want the lease any more, or the whole Tenure closes. */
  readonly signals: readonly (AbortSignal | undefined)[];
}

/** Answers the lease when all guards are advanced; else releases it and throws the reason. */
export async function advanceAll(
  { clock, signals }: AdvanceParts,
  lease: Lease,
  guards: readonly Advanceable[],
): Promise<Lease> {
  const { resource, safeUntil } = lease;
  const late = new AbortController();
  const giveUp = (): void => late.abort(hangs(resource));
  // From the deadline as it is now: renewals move it on, and a guard that hangs would be waited for as long as they do.
  const limitMs = safeUntil - clock.now();
  const timer = clock.setTimer(giveUp, limitMs, { keepAlive: true });
  const { signal, unlink } = linkSignals(lease.signal, late.signal, ...signals);
  try {
    const advancing = guards.map(async (guard) => guard.advance(lease, { limitMs }));
    await orAborted(Promise.all(advancing), signal);
    signal.throwIfAborted();
    // A process that was stopped finds the guard's answer before the timer that would have told of the end.
    if (clock.now() >= lease.safeUntil) lease.check();
    return lease;
  } catch (error) {
    // How that goes never hides the reason; the ttl frees the resource at the latest.
    await lease.release().catch(() => undefined);
    throw error;
  } finally {
    timer.cancel();
    unlink();
  }
}

function hangs(resource: string): GuardUnavailableError {
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
