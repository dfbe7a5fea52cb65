// Time limits for many requests with one shared timer. Nearly every request is answered long before
// its limit, and a timer per request would cost more than the rest of its bookkeeping. A pending
// limit keeps the process alive.

import type { Clock, Timer } from "./clock.ts";

/** A pending time limit. */
export interface Limit {
  /** The work finished in time. Further calls do nothing. */
  end(): void;
}

const shared = new WeakMap<Clock, Limits>();

/** The limits that all users of this clock share. */
export function getSharedLimits(clock: Clock): Limits {
  let limits = shared.get(clock);
  if (limits === undefined) {
    limits = new Limits(clock);
    shared.set(clock, limits);
  }
  return limits;
}

/**
 * A ring of entries, oldest first. Not a Set: its old hash tables delay garbage collection, which
 * at thousands of requests per second was half of the cost of a grant.
 */
export class Limits {
  readonly #clock: Clock;
  readonly #ring: Entry = new Entry(Number.POSITIVE_INFINITY, () => undefined);
  #timer: Timer | undefined;
  #timerDueAt = Number.POSITIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls `onLate` after `limitMs`, unless the limit is ended before that. */
  start(limitMs: number, onLate: () => void): Limit {
    const dueAt = this.#clock.now() + limitMs;
    const entry = new Entry(dueAt, onLate);
    const wasEmpty = this.#isEmpty();
    entry.insertBefore(this.#ring, this.#onRemoved);
    if (dueAt < this.#timerDueAt) this.#arm(dueAt, limitMs);
    else if (wasEmpty) this.#timer?.keepAlive?.(true);
    return entry;
  }

  /**
   * Setting a timer costs more than one needless callback, so an unused timer stays if it can
   * release the process.
   */
  readonly #onRemoved = (): void => {
    if (!this.#isEmpty()) return;
    if (this.#timer?.keepAlive === undefined) this.#disarm();
    else this.#timer.keepAlive(false);
  };

  #isEmpty(): boolean {
    return this.#ring.next === this.#ring;
  }

  #arm(dueAt: number, delayMs: number): void {
    this.#timer?.cancel();
    this.#timerDueAt = dueAt;
    this.#timer = this.#clock.setTimer(() => this.#checkLimits(), delayMs, { keepAlive: true });
  }

  #disarm(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#timerDueAt = Number.POSITIVE_INFINITY;
  }

  #checkLimits(): void {
    this.#disarm();
    const now = this.#clock.now();
    const late: (() => void)[] = [];
    let next = Number.POSITIVE_INFINITY;
    for (let entry = this.#ring.next; entry !== this.#ring; ) {
      const following = entry.next;
      if (entry.dueAt <= now) late.push(entry.remove());
      else next = Math.min(next, entry.dueAt);
      entry = following;
    }
    if (next < Number.POSITIVE_INFINITY) this.#arm(next, next - now);
    for (const onLate of late) onLate();
  }
}

/** An entry of the ring. After its removal it references nothing. */
class Entry implements Limit {
  readonly dueAt: number;
  next: Entry = this;
  #previous: Entry = this;
  #onLate: () => void;
  #onRemoved: (() => void) | undefined;

  constructor(dueAt: number, onLate: () => void) {
    this.dueAt = dueAt;
    this.#onLate = onLate;
  }

  insertBefore(other: Entry, onRemoved: () => void): void {
    this.next = other;
    this.#previous = other.#previous;
    this.#previous.next = this;
    other.#previous = this;
    this.#onRemoved = onRemoved;
  }

  end(): void {
    const onRemoved = this.#onRemoved;
    if (onRemoved === undefined) return;
    this.remove();
    onRemoved();
  }

  /** Removes the entry from the ring and returns its callback. */
  remove(): () => void {
    const onLate = this.#onLate;
    this.#previous.next = this.next;
    this.next.#previous = this.#previous;
    this.next = this;
    this.#previous = this;
    this.#onLate = nothing;
    this.#onRemoved = undefined;
    return onLate;
  }
}

function nothing(): void {}
