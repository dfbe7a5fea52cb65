// Spaces out the answers to stale requests. Otherwise a former holder that repeats its request in a
// loop could take most of the time of this process and delay the requests of the current holder.

import type { Clock } from "../../async/clock.ts";

/** A single stale request is answered at once. Several are answered one per interval. */
const EVERY_MS = 5;
/** The longest delay of an answer, however many stale requests there are. */
const DELAY_MAX_MS = 1_000;

export class Pace {
  readonly #clock: Clock;
  #nextAt = Number.NEGATIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Resolves when the next answer may be sent. */
  async next(): Promise<void> {
    const now = this.#clock.now();
    const at = Math.min(Math.max(now, this.#nextAt), now + DELAY_MAX_MS);
    this.#nextAt = at + EVERY_MS;
    if (at > now) await new Promise<void>((resolve) => this.#clock.setTimer(resolve, at - now));
  }
}
