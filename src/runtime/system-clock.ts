// The real clock. Node's monotonic clock stands still while a Linux machine is suspended, and a lease library that
// does not notice acts on leases that ended in its sleep. So every reading also looks at the wall clock, which is cheap;
// when the two disagree, the boot clock (which runs on in suspend) tells a suspend from a wall clock that was set.

import type { Clock, HostClock, Timer, TimerOptions } from "../core/clock.ts";

/** Where the readings come from; tests put their own in. */
export interface ClockSources {
  monotonicMs(): number;
  wallMs(): number;
  readonly hostClock: HostClock;
}

/** Wall and monotonic may drift apart this far (slewing, 1 ms steps) before the boot clock is asked. */
const WALL_TOLERANCE_MS = 50;
/** setTimeout turns larger delays into 1 ms. */
const DELAY_MAX_MS = 2 ** 31 - 1;

export class SystemClock implements Clock {
  readonly #sources: ClockSources;
  readonly #listeners = new Set<() => void>();
  /** Two steps of the boot clock plus the time between two readings: less than this is no suspend. */
  readonly #jumpMs: number;
  #wallOffset: number;
  #bootOffset: number;
  #last: number;

  constructor(sources: ClockSources) {
    this.#sources = sources;
    this.#jumpMs = 2 * sources.hostClock.stepMs + 10;
    // The monotonic clock is read last: an interruption before that makes the offsets too small, which can only be taken
    // for a jump later. Too large they would hide one.
    const boot = sources.hostClock.now();
    const wall = sources.wallMs();
    this.#last = sources.monotonicMs();
    this.#wallOffset = wall - this.#last;
    this.#bootOffset = boot - this.#last;
  }

  now(): number {
    const now = this.#sources.monotonicMs();
    const drift = this.#sources.wallMs() - now - this.#wallOffset;
    if (drift > WALL_TOLERANCE_MS || drift < -WALL_TOLERANCE_MS || now < this.#last)
      this.#compare(now);
    this.#last = now;
    return now;
  }

  wallNow(): number {
    return this.#sources.wallMs();
  }

  setTimer(callback: () => void, delayMs: number, options?: TimerOptions): Timer {
    const fire = (): void => {
      // The wall clock may have been set by just the length of the sleep, so timers ask the boot clock regardless.
      this.#compare(this.#sources.monotonicMs());
      callback();
    };
    // setTimeout counts whole milliseconds and may come a fraction early; our timers may not.
    const timer = setTimeout(fire, Math.min(Math.ceil(Math.max(0, delayMs)) + 1, DELAY_MAX_MS));
    if (options?.keepAlive !== true) timer.unref();
    return { cancel: () => clearTimeout(timer) };
  }

  soon(callback: () => void): void {
    setImmediate(callback);
  }

  onJump(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #compare(now: number): void {
    const wentBack = now < this.#last;
    // The monotonic clock is read after the boot clock: being interrupted in between then hides a sleep until the next
    // comparison, and never invents one.
    const boot = this.#sources.hostClock.now();
    const bootOffset = boot - this.#sources.monotonicMs();
    const slept = bootOffset - this.#bootOffset > this.#jumpMs;
    this.#wallOffset = this.#sources.wallMs() - now;
    this.#last = now;
    if (!slept && !wentBack) return;
    this.#bootOffset = bootOffset;
    for (const listener of [...this.#listeners]) listener();
  }
}
