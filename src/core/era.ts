// Computes the next fencing token, for stores that count tokens themselves. Within an era, tokens
// go up by one per grant. A store starts a new era whenever it cannot prove that it still knows its
// last token: on first use, when a counter or row is missing, or when the backend is no longer the
// same server process. A new era starts at the backend's wall clock in microseconds. Tokens go up
// far more slowly than one per microsecond, so the clock is above every token granted before,
// including tokens that the backend has lost. SQL and Lua express the same rule; tests compare them
// with this file.

/**
 * The usual distance between the last known token and a new era: about 67 seconds in microseconds.
 * It covers the grants that a promoted replica has missed if its clock is behind. It is small, so
 * that frequent restarts do not push tokens far ahead of the clock.
 */
export const ERA_GAP: bigint = 2n ** 26n;

/**
 * The wall clock as a token: whole microseconds since 1970, and at least 1. Below 2^53 until the
 * year 2255.
 */
export function clockToken(wallMs: number): bigint {
  return BigInt(Math.max(1, Math.round(wallMs * 1_000)));
}

/**
 * The lowest token of a new era: the clock, if that is well above the last known token. Otherwise
 * it is the gap above that token, plus an amount that grows with time, so that two replicas that
 * have missed the same era and are promoted one after the other start at different tokens. It
 * depends more on the time than on the last known token, because these replicas may know different
 * ones.
 */
export function startOfEra(lastKnown: bigint, clock: bigint): bigint {
  const ahead = lastKnown - clock;
  if (ahead <= 0n) return higher(clock, lastKnown + ERA_GAP + (-ahead * 7n) / 8n);
  // At least a quarter of the gap.
  return lastKnown + ERA_GAP / 4n + (3n * ERA_GAP ** 2n) / 4n / (ERA_GAP + ahead);
}

/** The larger of two tokens. Math.max() does not take bigints. */
export function higher(one: bigint, other: bigint): bigint {
  return one < other ? other : one;
}

/** What a store knows about the tokens of one resource before a grant. */
export interface TokenState {
  /** The newest token of the resource that the backend knows; undefined if it knows none. */
  readonly last: bigint | undefined;
  /** Where the current era started. */
  readonly floor: bigint;
  /** clockToken() of the backend's wall clock. */
  readonly clock: bigint;
}

/**
 * The token of the next grant (S1). A resource that has no token in this era starts at the clock
 * rather than at the floor: its row may have been deleted since the era began.
 */
export function nextToken({ last, floor, clock }: TokenState): bigint {
  if (last !== undefined && last >= floor) return last + 1n;
  return higher(floor, clock);
}
