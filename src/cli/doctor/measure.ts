// Measures how long renewals and grants take and how late timers fire in this process. It uses the
// same store code that holds leases, with a session and a resource of its own.

import type { Clock, Random } from "../../async/clock.ts";
import { pause } from "../../async/waits.ts";
import type { Store } from "../../stores/contract.ts";

export interface Measured {
  readonly renewMs: readonly number[];
  /** The duration of a grant followed by its release. */
  readonly grantMs: readonly number[];
  /** How late timers fired, because of the event loop, the scheduler or a throttled CPU. */
  readonly lateMs: readonly number[];
  /** Requests that failed or took longer than `REQUEST_LIMIT_MS`. */
  readonly failures: number;
}

export interface MeasureParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly holderId: string;
  readonly forMs: number;
  /** From 0 to 1. */
  readonly onProgress: (share: number) => void;
  readonly signal: AbortSignal;
}

const REQUEST_LIMIT_MS = 5_000;
const RESOURCE = "tenure-doctor";
const TTL_MS = 30_000;
const PAUSE_MS = 4;
const GRANT_EVERY = 8;
const TICK_MS = 10;

export async function measure(parts: MeasureParts): Promise<Measured> {
  const { store, clock, random, holderId, forMs, signal } = parts;
  const sessionId = random.id();
  const limitMs = REQUEST_LIMIT_MS;
  await store.openSession({ sessionId, holderId, ttlMs: TTL_MS, limitMs });
  const lateness = measureLateness(clock);
  const renewMs: number[] = [];
  const grantMs: number[] = [];
  let failures = 0;
  const startedAt = clock.now();
  try {
    for (let round = 0; clock.now() - startedAt < forMs; round += 1) {
      signal.throwIfAborted();
      const isGrant = round % GRANT_EVERY === 0;
      const request = isGrant
        ? () => grantAndRelease(parts, sessionId, `${sessionId}.${round}`)
        : () => store.renew({ sessionId, withdrawn: [], acknowledged: [], limitMs });
      const sentAt = clock.now();
      try {
        const done = await request();
        if (done !== undefined) (isGrant ? grantMs : renewMs).push(clock.now() - sentAt);
      } catch {
        failures += 1;
      }
      parts.onProgress(Math.min(1, (clock.now() - startedAt) / forMs));
      await pause(clock, PAUSE_MS);
    }
    return { renewMs, grantMs, lateMs: lateness.stop(), failures };
  } finally {
    lateness.stop();
    await store.endSession({ sessionId, limitMs }).catch(() => undefined);
  }
}

/** Resolves with undefined if another doctor holds the resource. */
async function grantAndRelease(
  { store, holderId }: MeasureParts,
  sessionId: string,
  attempt: string,
): Promise<true | undefined> {
  const limitMs = REQUEST_LIMIT_MS;
  const own = { sessionId, resource: RESOURCE, limitMs };
  const outcome = await store.grant({ ...own, attempt, holderId, queue: false });
  if (outcome.kind !== "granted") return undefined;
  await store.release({ ...own, token: outcome.token });
  return true;
}

function measureLateness(clock: Clock): { stop(): number[] } {
  const lateMs: number[] = [];
  const arm = (): { cancel(): void } => {
    const dueAt = clock.now() + TICK_MS;
    return clock.setTimer(() => {
      lateMs.push(Math.max(0, clock.now() - dueAt));
      timer = arm();
    }, TICK_MS);
  };
  let timer = arm();
  return {
    stop: () => {
      timer.cancel();
      return lateMs;
    },
  };
}
