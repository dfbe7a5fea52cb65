// Attempts of one session that are not wanted any more and that the store may still have: a grant
// whose answer was lost, a queue entry, or a request that has not arrived yet. Renewals name them
// until no copy of the request can still arrive.

import type { Clock } from "../async/clock.ts";
import type { Timing } from "../core/timing.ts";

export interface Withdrawal {
  readonly resource: string;
  readonly attempt: string;
}

/**
 * A lost request may still reach the store for this many ttls, longer than any connection keeps
 * one.
 */
const LATE_TTLS = 10;

export class Withdrawals {
  readonly #clock: Clock;
  readonly #keepMs: number;
  readonly #withdrawn = new Map<string, Withdrawal & { readonly until: number }>();

  constructor(clock: Clock, { ttlMs }: Timing) {
    this.#clock = clock;
    this.#keepMs = LATE_TTLS * ttlMs;
  }

  add(resource: string, attempt: string): void {
    const until = this.#clock.now() + this.#keepMs;
    this.#withdrawn.set(attempt, { resource, attempt, until });
  }

  has(attempt: string): boolean {
    return this.#withdrawn.has(attempt);
  }

  /** What the next renewal has to name. */
  list(): readonly Withdrawal[] {
    const now = this.#clock.now();
    for (const [attempt, { until }] of this.#withdrawn)
      if (now >= until) this.#withdrawn.delete(attempt);
    return [...this.#withdrawn.values()];
  }
}
