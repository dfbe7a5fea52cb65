// Interfaces for time and randomness. `runtime/` implements them for production; the simulator and
// the tests have their own implementations, so that all code between a caller and a store can run
// on virtual time.
//
// Everything relies on one assumption: `now()` never goes back, and a period during which it stood
// still (a suspended machine) is reported through `onJump`. The pause of a whole virtual machine is
// reported only if its wall clock shows it.

/** A pending callback, as setTimer() returns it. */
export interface Timer {
  /** Prevents the callback. Does nothing if the timer has fired. */
  cancel(): void;
  /**
   * Sets whether the timer keeps the process alive. Absent on clocks that have no process, such as
   * virtual ones.
   */
  keepAlive?(on: boolean): void;
}

/** Options of setTimer(). */
export interface TimerOptions {
  /** Keep the process alive while this timer is pending. @default false */
  readonly keepAlive?: boolean;
}

/**
 * `certain`: time passed that `now()` did not count (suspend), or `now()` went back. Every earlier
 * deadline is invalid. `possible`: only the wall clock moved forward. Either it was set, or the
 * whole machine was paused (a virtual machine, a restored snapshot) and no other clock counted the
 * pause. Every earlier deadline needs a confirmation.
 */
export type ClockJump = "certain" | "possible";

/** The time as one process sees it: a monotonic clock, the wall clock and timers. */
export interface Clock {
  /**
   * Milliseconds on the monotonic clock of this process. Calls the `onJump` listeners first if it
   * detects a jump.
   */
  now(): number;
  /**
   * Milliseconds since 1970 on the wall clock. Used for display, for the scheduled times of once(),
   * and for the start of an era of tokens (era.ts). No decision about the holder of a lease may
   * depend on it.
   */
  wallNow(): number;
  /**
   * Calls back once, never early. In a stalled process the callback is late, so it must check
   * `now()`.
   */
  setTimer(callback: () => void, delayMs: number, options?: TimerOptions): Timer;
  /** Calls back after pending I/O and timers have run, for work that must not starve them. */
  soon(callback: () => void): void;
  /** Adds a listener for jumps. Returns the function that removes it. */
  onJump(listener: (jump: ClockJump) => void): () => void;
}

/**
 * A clock that all processes of a host share and that continues during suspend. Embedded stores use
 * it for expiry.
 */
export interface HostClock {
  /** Milliseconds since the host was booted. */
  now(): number;
  /**
   * The resolution of `now()`. A reading is never ahead of the true time and lags by at most this
   * much.
   */
  readonly stepMs: number;
  /** Identifies the boot that `now()` counts from. Readings of two boots cannot be compared. */
  readonly bootId: string;
}

/** The source of random numbers and ids. */
export interface Random {
  /** At least 0, below 1. For jitter. */
  next(): number;
  /** A unique id of 128 bits, as 32 hex digits. For session ids. */
  id(): string;
}
