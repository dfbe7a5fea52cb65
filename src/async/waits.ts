// Waiting by the injected clock. No request hangs: a store that does not answer in time counts as unavailable, with an
// unknown outcome. These timers keep the process alive, because a caller is waiting for them; renewals do not.

import { InvalidArgumentError, StoreUnavailableError } from "../core/errors.ts";
import type { Clock } from "./clock.ts";
import { getSharedLimits } from "./limits.ts";

/** A store is asked to keep its own limit; this is for the one that does not. */
const GRACE_MS = 50;

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
      // A store that throws is as good as one that rejects.
      failed(error);
    }
  });
}

/** Resolves after `delayMs`; rejects with the signal's reason if that comes first. */
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

/** A length of time that a caller may ask for. */
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
