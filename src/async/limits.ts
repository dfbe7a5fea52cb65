// Time limits for many requests with one timer. Nearly every request is answered long before its limit, and a timer of its
// own would cost more than the rest of its bookkeeping. Whatever has a limit keeps the process alive until it is over.

import type { Clock, Timer } from "./clock.ts";

/** One limit under way. */
export interface Limit {
  /** It is over in time. Calling it again does nothing. */
  end(): void;
}

const shared = new WeakMap<Clock, Limits>();

/** The limits of everybody who lives by this clock. */
export function getSharedLimits(clock: Clock): Limits {
  let limits = shared.get(clock);
  if (limits === undefined) {
    limits = new Limits(clock);
    shared.set(clock, limits);
  }
  return limits;
}

/**
 * A ring of entries, the oldest first. No set: its discarded tables keep what they once had from the garbage collector,
 * and at thousands of requests a second that was half of the cost of a grant.
 */
export class Limits {
  readonly #clock: Clock;
  readonly #ring: Entry = new Entry(Number.POSITIVE_INFINITY, () => undefined);
  #timer: Timer | undefined;
  #timerDueAt = Number.POSITIVE_INFINITY;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Calls back once, unless it is ended before `limitMs` are over. */
  start(limitMs: number, onLate: () => void): Limit {
    const dueAt = this.#clock.now() + limitMs;
    const entry = new Entry(dueAt, onLate);
    const wasEmpty = this.#isEmpty();
    entry.insertBefore(this.#ring, this.#whenOut);
    if (dueAt < this.#timerDueAt) this.#arm(dueAt, limitMs);
    else if (wasEmpty) this.#timer?.keepAlive?.(true);
    return entry;
  }

  /** Setting a timer costs more than letting one go off for nothing, so it stays where it keeps nobody waiting. */
  readonly #whenOut = (): void => {
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
    this.#timer = this.#clock.setTimer(() => this.#look(), delayMs, { keepAlive: true });
  }

  #disarm(): void {
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#timerDueAt = Number.POSITIVE_INFINITY;
  }

  #look(): void {
    this.#disarm();
    const now = this.#clock.now();
    const late: (() => void)[] = [];
    let next = Number.POSITIVE_INFINITY;
    for (let entry = this.#ring.next; entry !== this.#ring; ) {
      const following = entry.next;
      if (entry.dueAt <= now) late.push(entry.take());
      else next = Math.min(next, entry.dueAt);
      entry = following;
    }
    if (next < Number.POSITIVE_INFINITY) this.#arm(next, next - now);
    for (const onLate of late) onLate();
  }
}

/** Once out of the ring it holds nothing any more. */
class Entry implements Limit {
  readonly dueAt: number;
  next: Entry = this;
  #previous: Entry = this;
  #onLate: () => void;
  #whenOut: (() => void) | undefined;

  constructor(dueAt: number, onLate: () => void) {
    this.dueAt = dueAt;
    this.#onLate = onLate;
  }

  insertBefore(other: Entry, whenOut: () => void): void {
    this.next = other;
    this.#previous = other.#previous;
    this.#previous.next = this;
    other.#previous = this;
    this.#whenOut = whenOut;
  }

  end(): void {
    const whenOut = this.#whenOut;
    if (whenOut === undefined) return;
    this.take();
    whenOut();
  }

  /** Leaves the ring, and gives what was to be called. */
  take(): () => void {
    const onLate = this.#onLate;
    this.#previous.next = this.next;
    this.next.#previous = this.#previous;
    this.next = this;
    this.#previous = this;
    this.#onLate = nothing;
    this.#whenOut = undefined;
    return onLate;
  }
}

function nothing(): void {}
