// Wakes one waiter: by a notification, after a delay, or by its signal. A notification that arrives
// between two waits is not lost: it counts until `reset`, which the waiter calls before it checks
// the state it waits for.

import type { Clock, Timer, TimerOptions } from "../../async/clock.ts";

export class Wakeup {
  readonly #clock: Clock;
  readonly #options: TimerOptions;
  #isNotified = false;
  #wake: (() => void) | undefined;

  /** By default a wait keeps the process alive, because a caller awaits its result. */
  constructor(clock: Clock, options: TimerOptions = { keepAlive: true }) {
    this.#clock = clock;
    this.#options = options;
  }

  readonly notify = (): void => {
    this.#isNotified = true;
    this.#wake?.();
  };

  /** Forgets earlier notifications. */
  reset(): void {
    this.#isNotified = false;
  }

  /**
   * Resolves after a notification since `reset`, or after `delayMs`; rejects with the signal's
   * reason. Only one call may wait at a time.
   */
  wait(delayMs: number, signal: AbortSignal): Promise<void> {
    return new Promise((resolve, reject) => {
      let timer: Timer | undefined;
      const settle = (answer: () => void): void => {
        timer?.cancel();
        this.#wake = undefined;
        signal.removeEventListener("abort", stop);
        answer();
      };
      const stop = (): void => settle(() => reject(signal.reason));
      const wake = (): void => settle(resolve);
      if (signal.aborted) stop();
      else if (this.#isNotified) wake();
      else {
        this.#wake = wake;
        signal.addEventListener("abort", stop, { once: true });
        if (delayMs < Number.POSITIVE_INFINITY)
          timer = this.#clock.setTimer(wake, delayMs, this.#options);
      }
    });
  }
}
