// Checks a holder when its time is up, for the first waiters of a resource. Used by stores whose
// backend does not report that a session has expired. One timer per resource, however many
// attempts of this process wait for it.

import type { Clock, Timer } from "../../async/clock.ts";

/**
 * Hands the resource off if its holder has expired. Resolves with the milliseconds until the next
 * check, or undefined if no attempt of this process needs one.
 */
export type CheckExpiry = (resource: string) => Promise<number | undefined>;

/** When to check again after a check that failed, as long as a client takes to reconnect. */
const RETRY_MS = 50;

export class ExpiryChecks {
  readonly #clock: Clock;
  readonly #check: CheckExpiry;
  readonly #timers = new Map<string, Timer>();
  #isClosed = false;

  constructor(clock: Clock, check: CheckExpiry) {
    this.#clock = clock;
    this.#check = check;
  }

  /** Replaces the pending check of the resource: its holder may be another one by now. */
  checkIn(resource: string, delayMs: number): void {
    this.cancel(resource);
    if (this.#isClosed) return;
    const run = (): void => {
      this.#timers.delete(resource);
      void this.#run(resource);
    };
    this.#timers.set(resource, this.#clock.setTimer(run, Math.max(0, delayMs)));
  }

  cancel(resource: string): void {
    this.#timers.get(resource)?.cancel();
    this.#timers.delete(resource);
  }

  close(): void {
    this.#isClosed = true;
    for (const resource of [...this.#timers.keys()]) this.cancel(resource);
  }

  async #run(resource: string): Promise<void> {
    const againInMs = await this.#check(resource).catch(() => RETRY_MS);
    // A request of the meantime may have planned a check by newer facts.
    if (againInMs !== undefined && !this.#timers.has(resource)) this.checkIn(resource, againInMs);
  }
}
