// Time and chance as the rest of the code sees them. Interfaces only: `runtime/` has the real ones, the simulator and
// the tests have their own, so that every line between a caller and a store can run on virtual time.
// Assumption everything rests on: `now()` never goes back, and a stretch during which it stood still (a suspended
// machine) is reported through `onJump`. A pause of a whole virtual machine is reported only if its wall clock shows it.

export interface Timer {
  cancel(): void;
  /** Whether it keeps the process alive from now on. A clock without a process has no such thing. */
  keepAlive?(on: boolean): void;
}

export interface TimerOptions {
  /** Keep the process alive while this timer is pending. @default false */
  readonly keepAlive?: boolean;
}

/**
 * `certain`: time passed that `now()` did not count (suspend), or `now()` went back. Every deadline taken before is worthless.
 * `possible`: only the wall clock moved forward. It was set, or the whole machine was paused (a virtual machine, a restored
 * snapshot) and no clock of it counted. Every deadline taken before needs a confirmation.
 */
export type ClockJump = "certain" | "possible";

export interface Clock {
  /** Milliseconds on this process's monotonic clock. Calls the `onJump` listeners first when it finds a jump. */
  now(): number;
  /**
   * Milliseconds since 1970 by the wall clock. For people to read, for once() to recognise a late fire, which a schedule
   * names by this clock, and for the start of an era of tokens (era.ts). No decision about who holds a lease may depend on it.
   */
  wallNow(): number;
  /** Calls back once, never early. A stalled process calls back late: act on `now()`, not on having been called. */
  setTimer(callback: () => void, delayMs: number, options?: TimerOptions): Timer;
  /** Calls back after pending I/O and timers had their chance: for work that must not crowd them out. */
  soon(callback: () => void): void;
  /** Reports jumps to the listener. Returns the function that removes the listener. */
  onJump(listener: (jump: ClockJump) => void): () => void;
}

/** The clock that all processes of one host share and that runs on in suspend. Embedded stores judge expiry by it. */
export interface HostClock {
  /** Milliseconds since the host was booted. */
  now(): number;
  /** How coarse `now()` is. A reading is never ahead of the truth and at most this far behind it. */
  readonly stepMs: number;
  /** Names the boot that `now()` counts from. Readings of two boots cannot be compared. */
  readonly bootId: string;
}

export interface Random {
  /** At least 0, below 1. For jitter. */
  next(): number;
  /** 128 bits that nobody else has, as 32 hex digits. For the names of sessions. */
  id(): string;
}
