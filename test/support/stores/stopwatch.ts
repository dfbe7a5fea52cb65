// A stopwatch for limits that must also hold on a busy machine. It counts only the time in which
// this process was running: a gap between two ticks of a short timer counts as one tick, however
// long the operating system ran other processes in between. A library that waits too long is still
// caught, because ticks continue while it waits.

import { onTestFinished } from "vitest";

const TICK_MS = 10;
/** The most that one tick adds: a little more than its length, because timers are inaccurate. */
const TICK_MAX_MS = 15;

export interface Stopwatch {
  /** Milliseconds since the start, without the time in which this process did not run. */
  elapsedMs(): number;
}

/** Call it in a test. The ticks end with the test. */
export function startStopwatch(): Stopwatch {
  let counted = 0;
  let last = performance.now();
  const count = (): void => {
    const now = performance.now();
    counted += Math.min(now - last, TICK_MAX_MS);
    last = now;
  };
  const ticks = setInterval(count, TICK_MS);
  onTestFinished(() => clearInterval(ticks));
  return {
    elapsedMs: () => {
      count();
      return counted;
    },
  };
}
