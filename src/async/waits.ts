// Time limits and delays on the injected clock. A store that does not answer within the limit
// counts as unavailable, with an unknown outcome, so no request hangs. These timers keep the
// process alive, because a caller is waiting; the timers of renewals do not.

import { InvalidArgumentError, StoreUnavailableError } from "../core/errors.ts";
import type { Clock, Timer } from "./clock.ts";
import { getSharedLimits } from "./limits.ts";

/** Stores enforce the limit themselves. This extra time applies to a store that fails to do so. */
const GRACE_MS = 50;

/** Runs the request, and rejects with StoreUnavailableError if it takes longer than the limit. */
export function withLimit<T>(
  clock: Clock,
  limitMs: number,
  what: string,
  request: () => Promise<T>,
): Promise<T> {
  return new Promise((resolve, reject) => {
    const limit = getSharedLimits(clock).start(limitMs + GRACE_MS, () => {
      const message = `The store did not answer the ${what} within ${Math.round(limitMs)} ms.`;
      reject(new StoreUnavailableError(message, { applied: "unknown" }));
    });
    const failed = (error: unknown): void => {
      limit.end();
      reject(error);
    };
    try {
      request().then((answer) => {
        limit.end();
        resolve(answer);
      }, failed);
    } catch (error) {
      // A store that throws synchronously is treated like one that rejects.
      failed(error);
    }
  });
}

/** Resolves after `delayMs`. Rejects with the signal's reason if the signal aborts first. */
export function pause(clock: Clock, delayMs: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const stop = (): void => {
      timer.cancel();
      reject(signal?.reason);
    };
    const done = (): void => {
      signal?.removeEventListener("abort", stop);
      resolve();
    };
    const timer = clock.setTimer(done, delayMs, { keepAlive: true });
    signal?.addEventListener("abort", stop, { once: true });
  });
}

/** About twelve days. A Node timer can run at most twice that long, so it is set repeatedly. */
const LONG_MS = 2 ** 30;

/** Keeps the process alive until it is cancelled. */
export function stayAlive(clock: Clock): Timer {
  const set = (): Timer => clock.setTimer(() => (timer = set()), LONG_MS, { keepAlive: true });
  let timer = set();
  return { cancel: () => timer.cancel() };
}

/** Whether a caller may pass this as a duration. Infinity is allowed. */
export function isDelay(ms: unknown): ms is number {
  return typeof ms === "number" && ms >= 0;
}

export function checkDelay(name: string, ms: unknown): number {
  if (isDelay(ms)) return ms;
  throw badDelay(name, ms);
}

export function badDelay(name: string, ms: unknown): InvalidArgumentError {
  return new InvalidArgumentError(
    `\`${name}\` must be a number of milliseconds, at least 0 (Infinity waits for ever), got ${String(ms)}.`,
  );
}
