// A clock that a test moves by hand, so that no test has to sleep. Timers fire in order, and
// pending promises settle between two timers.

import type { Clock, ClockJump, HostClock, Random, Timer } from "../async/clock.ts";

interface Pending {
  readonly at: number;
  readonly callback: () => void;
}

/** A clock for tests. It stands still until `advance`, `stall` or `jump` is called. */
export class ManualClock implements Clock {
  /** A host clock that moves together with this clock, for embedded stores. */
  readonly hostClock: HostClock;
  #now = 1_000;
  readonly #pending = new Set<Pending>();
  readonly #listeners = new Set<(jump: ClockJump) => void>();

  constructor() {
    const now = (): number => this.#now;
    this.hostClock = { now, stepMs: 1, bootId: "manual" };
  }

  /** Milliseconds on the monotonic clock. Starts at 1000. */
  now(): number {
    return this.#now;
  }

  /** Milliseconds since 1970, at a constant distance from now(). */
  wallNow(): number {
    return 1_700_000_000_000 + this.#now;
  }

  /** Calls back once `advance` has moved time by `delayMs`. */
  setTimer(callback: () => void, delayMs: number): Timer {
    const entry = { at: this.#now + Math.max(0, delayMs), callback };
    this.#pending.add(entry);
    return { cancel: () => this.#pending.delete(entry) };
  }

  /** Calls back at the next `advance`, after the timers that are due before. */
  soon(callback: () => void): void {
    this.setTimer(callback, 0);
  }

  /** Adds a listener for `jump`. Returns the function that removes it. */
  onJump(listener: (jump: ClockJump) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** The number of pending timers, to check that none is left running. */
  get timers(): number {
    return this.#pending.size;
  }

  /** Moves time forward and fires the timers that are due. Promises settle after each timer. */
  async advance(ms: number): Promise<void> {
    const until = this.#now + ms;
    await settle();
    for (;;) {
      const next = this.#next(until);
      if (next === undefined) break;
      this.#pending.delete(next);
      this.#now = Math.max(this.#now, next.at);
      next.callback();
      await settle();
    }
    this.#now = Math.max(this.#now, until);
  }

  /**
   * Moves time forward without running anything, like a stopped process or a blocked event loop.
   * Timers that are due fire at the next `advance`.
   */
  stall(ms: number): void {
    this.#now += ms;
  }

  /**
   * Reports a jump, which the monotonic clock does not show. `certain`: the machine was suspended.
   * `possible`: only the wall clock moved forward, as after a pause of the whole machine.
   */
  jump(jump: ClockJump = "certain"): void {
    for (const listener of [...this.#listeners]) listener(jump);
  }

  /** The first timer that is due. Of two that are due together, the one that was set first. */
  #next(until: number): Pending | undefined {
    const due = [...this.#pending].filter(({ at }) => at <= until);
    return due.sort((one, other) => one.at - other.at)[0];
  }
}

/** Deterministic randomness: `next` is always 0.5, and ids count up. */
export function manualRandom(): Random {
  let ids = 0;
  return { next: () => 0.5, id: () => (++ids).toString(16).padStart(32, "0") };
}

/** Enough turns for every chain of promises in the library that waits for no I/O. */
async function settle(): Promise<void> {
  for (let turn = 0; turn < 100; turn += 1) await Promise.resolve();
}
