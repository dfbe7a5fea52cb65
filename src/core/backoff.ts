// Computes how long to wait before a retry. The delay doubles up to a cap, and half of it is
// random, so that many clients do not retry at the same moment.

export interface Backoff {
  /** The wait before the first retry, before jitter. */
  readonly baseMs: number;
  /** No wait is longer than this. */
  readonly capMs: number;
}

/**
 * The delay after this many failures in a row, counted from 1. `draw` is one number from
 * `Random.next()`.
 */
export function backoffMs(backoff: Backoff, failures: number, draw: number): number {
  const doublings = Math.min(Math.max(failures - 1, 0), 30);
  const full = Math.min(backoff.capMs, backoff.baseMs * 2 ** doublings);
  return full / 2 + (full / 2) * draw;
}
