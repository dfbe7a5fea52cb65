// How long to wait before trying again: doubling, capped, with half of it drawn by lot so that a crowd spreads out.

export interface Backoff {
  /** The wait before the first retry, before jitter. */
  readonly baseMs: number;
  /** No wait is longer than this. */
  readonly capMs: number;
}

/** `failures` counts from 1; `draw` is one number from `Random.next()`. */
export function backoffMs(backoff: Backoff, failures: number, draw: number): number {
  const doublings = Math.min(Math.max(failures - 1, 0), 30);
  const full = Math.min(backoff.capMs, backoff.baseMs * 2 ** doublings);
  return full / 2 + (full / 2) * draw;
}
