// A lease that is left behind: it has a session of its own that nobody renews and nobody releases, so it ends by the store's
// clock and needs no process to stay. For what others shall find for a while: a fire that was run, a wish of a leader.

import type { Clock, Random } from "../async/clock.ts";
import { withLimit } from "../async/waits.ts";
import { isTenureError } from "../core/errors.ts";
import type { GrantOutcome, Store } from "../stores/contract.ts";

export interface UnrenewedParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly holderId: string;
  /** For each request. */
  readonly limitMs: number;
}

export interface Unrenewed {
  /** What the store granted, which may differ from what was asked for. */
  readonly ttlMs: number;
  /** A lost answer is asked for again under the same attempt. Does not wait. */
  grant(resource: string, value: unknown): Promise<GrantOutcome>;
  /** Takes back what was left, where the store can be reached. Never rejects. */
  end(): Promise<void>;
}

const TRIES_MAX = 3;

export async function openUnrenewed(parts: UnrenewedParts, ttlMs: number): Promise<Unrenewed> {
  const { store, clock, random, holderId, limitMs } = parts;
  const sessionId = random.id();
  let attempts = 0;
  const end = (): Promise<void> =>
    withLimit(clock, limitMs, "end of a session", () =>
      store.endSession({ sessionId, limitMs }),
    ).catch(() => undefined);
  const grant = async (resource: string, value: unknown): Promise<GrantOutcome> => {
    attempts += 1;
    const attempt = `${sessionId}.${attempts}`;
    const request = { sessionId, resource, attempt, holderId, value, queue: false, limitMs };
    for (let failures = 0; ; ) {
      try {
        return await withLimit(clock, limitMs, "request for a grant", () => store.grant(request));
      } catch (error) {
        failures += 1;
        if (failures === TRIES_MAX || !isTenureError(error, "STORE_UNAVAILABLE")) throw error;
      }
    }
  };
  try {
    const opened = await withLimit(clock, limitMs, "opening of a session", () =>
      store.openSession({ sessionId, holderId, ttlMs, limitMs }),
    );
    // It is over at the store by then; this is for what the process keeps of a session.
    clock.setTimer(() => void end(), opened.ttlMs);
    return { ttlMs: opened.ttlMs, grant, end };
  } catch (error) {
    await end();
    throw error;
  }
}
