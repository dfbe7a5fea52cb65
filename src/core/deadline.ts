// All arithmetic on the holder's own end of a lease. The one rule that makes it safe: count from the moment before the
// request left, by our own monotonic clock, with the duration that the store granted. The reply's arrival plays no part.

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
