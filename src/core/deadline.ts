// Computes when a holder must stop using its lease. The rule that makes it safe (S3): start at the
// moment before the request was sent, on the holder's own monotonic clock, and add the duration
// that the store granted. When the reply arrived does not matter.

import type { Timing } from "./timing.ts";

export interface Confirmation {
  /** `clock.now()` read before the request was sent. */
  readonly sentAt: number;
  /**
   * The duration that the store granted, starting when it handled the request. It may differ from
   * the requested one.
   */
  readonly grantedTtlMs: number;
}

/** The instant on the holder's clock from which it may no longer act (S3). */
export function safeUntil(confirmation: Confirmation, marginMs: number): number {
  return confirmation.sentAt + confirmation.grantedTtlMs - marginMs;
}

/**
 * The margin for a granted ttl. `clockErrorMs` is stated for the requested ttl. During a longer
 * one, two clocks drift further apart, so the margin grows in proportion. A shorter one does not
 * reduce it.
 */
export function marginOver(grantedTtlMs: number, timing: Timing): number {
  const { ttlMs, clockErrorMs, marginMs } = timing;
  return marginMs + clockErrorMs * Math.max(0, grantedTtlMs / ttlMs - 1);
}
