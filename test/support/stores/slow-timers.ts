// A clock with slow timers. A store does some things only after a lease was held, or waited for,
// for a moment. With slow timers that moment does not pass in a test, even on a busy machine.
import type { Clock } from "../../../src/async/clock.ts";
import { systemParts } from "../../../src/runtime/system.ts";
import type { StoreParts } from "../../../src/stores/contract.ts";

const TIMES_SLOWER = 40;

export function slowParts(): StoreParts {
  const { clock, ...parts } = systemParts();
  const slow: Clock = {
    now: () => clock.now(),
    wallNow: () => clock.wallNow(),
    setTimer: (callback, delayMs, options) =>
      clock.setTimer(callback, TIMES_SLOWER * delayMs, options),
    soon: (callback) => clock.soon(callback),
    onJump: (listener) => clock.onJump(listener),
  };
  return { ...parts, clock: slow };
}
