// All arithmetic on the holder's own end of a lease. The one rule that makes it safe: count from the moment before the
// request left, by our own monotonic clock, with the duration that the store granted. The reply's arrival plays no part.

import type { Timing } from "./timing.ts";

export interface Confirmation {
  /** `clock.now()` read before the request was sent. */
  readonly sentAt: number;
  /** The duration the store granted from when it handled the request; it may differ from the one asked for. */
  readonly grantedTtlMs: number;
}

/** The instant on the holder's clock from which it may no longer act (S3). */
export function safeUntil(confirmation: Confirmation, marginMs: number): number {
  return confirmation.sentAt + confirmation.grantedTtlMs - marginMs;
}

/**
 * The clock error is stated for the ttl that was asked for. A store that grants a longer one lets two clocks drift further
 * apart before it ends, so the margin grows with it; a shorter one leaves it as it is.
 */
export function marginOver(grantedTtlMs: number, timing: Timing): number {
  const { ttlMs, clockErrorMs, marginMs } = timing;
  return marginMs + clockErrorMs * Math.max(0, grantedTtlMs / ttlMs - 1);
}
