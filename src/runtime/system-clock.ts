// The real clock, with detection of jumps. Node's monotonic clock stops while a Linux machine is
// suspended, so a lease may expire without the holder noticing. Every reading therefore also reads
// the wall clock, which is cheap. If the two disagree, we read the boot clock, which continues
// during suspend. If the boot clock shows a suspend, the jump is certain. If only the wall clock
// moved forward, it was set, or the virtual machine was paused and its clock corrected afterwards;
// then the jump is possible.

import type { Clock, ClockJump, HostClock, Timer, TimerOptions } from "../async/clock.ts";

/** Where the readings come from. Tests provide their own. */
export interface ClockSources {
  monotonicMs(): number;
  wallMs(): number;
  readonly hostClock: HostClock;
}

/** How far wall and monotonic clock may drift apart (slewing, 1 ms steps) before it is a step. */
const WALL_TOLERANCE_MS = 50;
/** Readings this close together count as simultaneous. */
const READ_TOGETHER_MS = 5;
/** setTimeout turns larger delays into 1 ms. */
const DELAY_MAX_MS = 2 ** 31 - 1;

export class SystemClock implements Clock {
  readonly #sources: ClockSources;
  readonly #listeners = new Set<(jump: ClockJump) => void>();
  /** The smallest suspend that is detected: two steps of the boot clock plus the reading time. */
  readonly #jumpMs: number;
  #wallOffset: number;
  /**
   * The last reading of wallNow(). The platform's wall clock has whole milliseconds. Readings
   * within one millisecond are made to differ by a microsecond each, so that two tokens that start
   * at the clock are not the same (core/era.ts).
   */
  #wallMs = Number.NaN;
  #wallMicros = 0;
  #bootOffset: number;
  #last: number;

  constructor(sources: ClockSources) {
    this.#sources = sources;
    this.#jumpMs = 2 * sources.hostClock.stepMs + 10;
    const start = readTogether(sources);
    this.#last = start.monotonic;
    this.#wallOffset = start.wall - start.monotonic;
    this.#bootOffset = start.boot - start.monotonic;
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
    const ms = this.#sources.wallMs();
    if (ms === this.#wallMs) this.#wallMicros = Math.min(this.#wallMicros + 1, 999);
    else [this.#wallMs, this.#wallMicros] = [ms, 0];
    return ms + this.#wallMicros / 1_000;
  }

  setTimer(callback: () => void, delayMs: number, options?: TimerOptions): Timer {
    const { monotonicMs } = this.#sources;
    const dueAt = monotonicMs() + delayMs;
    let isHeld = options?.keepAlive === true;
    // setTimeout has whole milliseconds, may fire slightly early, and supports at most 24 days.
    const arm = (): NodeJS.Timeout => {
      const timeout = setTimeout(
        fire,
        Math.min(Math.max(0, Math.ceil(dueAt - monotonicMs())), DELAY_MAX_MS),
      );
      return isHeld ? timeout : timeout.unref();
    };
    const fire = (): void => {
      const now = monotonicMs();
      // The wall clock may have been set by exactly the length of a suspend. So timers always
      // compare with the boot clock.
      this.#compare(now);
      if (now < dueAt) timer = arm();
      else callback();
    };
    let timer = arm();
    return {
      cancel: () => clearTimeout(timer),
      keepAlive: (on) => {
        isHeld = on;
        if (on) timer.ref();
        else timer.unref();
      },
    };
  }

  soon(callback: () => void): void {
    setImmediate(callback);
  }

  onJump(listener: (jump: ClockJump) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #compare(now: number): void {
    const wentBack = now < this.#last;
    // Read together: an interruption between two readings would look like a step of the wall clock.
    const { monotonic, wall, boot } = readTogether(this.#sources);
    const slept = boot - monotonic - this.#bootOffset > this.#jumpMs;
    const stepped = wall - monotonic - this.#wallOffset > WALL_TOLERANCE_MS;
    this.#wallOffset = wall - monotonic;
    this.#last = now;
    if (slept || wentBack) {
      this.#bootOffset = boot - monotonic;
      this.#report("certain");
    } else if (stepped) this.#report("possible");
  }

  #report(jump: ClockJump): void {
    for (const listener of [...this.#listeners]) listener(jump);
  }
}

/**
 * Reads the three clocks at nearly the same instant. An interruption in between would make the
 * offsets permanently wrong. Too large, they hide a later suspend; too small, they report a suspend
 * that did not happen.
 */
function readTogether(sources: ClockSources): { monotonic: number; wall: number; boot: number } {
  for (let tries = 1; ; tries += 1) {
    const before = sources.monotonicMs();
    const boot = sources.hostClock.now();
    const wall = sources.wallMs();
    const monotonic = sources.monotonicMs();
    // After many tries the last one is used. The monotonic clock is read last, so an interruption
    // can only cause a false report of a jump.
    if (monotonic - before < READ_TOGETHER_MS || tries >= 100) return { monotonic, wall, boot };
  }
}
