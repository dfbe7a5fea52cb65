// How one waiter is woken: by a ring, after a time, or by its signal. A ring that comes between two waits is not lost: it
// counts until `reset`, which the waiter calls before it looks.

import type { Clock, Timer } from "../../async/clock.ts";

export class Bell {
  readonly #clock: Clock;
  #hasRung = false;
  #wake: (() => void) | undefined;

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  readonly ring = (): void => {
    this.#hasRung = true;
    this.#wake?.();
  };

  /** What rang until now does not count any more. */
  reset(): void {
    this.#hasRung = false;
  }

  /** Resolves when it has rung since `reset`, or after `delayMs`; rejects with the signal's reason. One waiter at a time. */
  next(delayMs: number, signal: AbortSignal): Promise<void> {
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
      else if (this.#hasRung) wake();
      else {
        this.#wake = wake;
        signal.addEventListener("abort", stop, { once: true });
        // Somebody is waiting, so the process has something to do.
        if (delayMs < Number.POSITIVE_INFINITY)
          timer = this.#clock.setTimer(wake, delayMs, { keepAlive: true });
      }
    });
  }
}
