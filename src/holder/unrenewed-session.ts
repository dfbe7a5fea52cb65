// A session that is never renewed and usually never ended: its leases expire by the store's clock,
// without any process staying alive. once() uses it for the markers of runs that have begun.

import type { Clock, Random } from "../async/clock.ts";
import { withLimit } from "../async/waits.ts";
import { isTenureError } from "../core/errors.ts";
import type { GrantOutcome, Store } from "../stores/contract.ts";

export interface UnrenewedSessionParts {
  readonly store: Store;
  readonly clock: Clock;
  readonly random: Random;
  readonly holderId: string;
  /** The time limit of each request. */
  readonly limitMs: number;
}

export interface UnrenewedSession {
  /** The ttl that the store granted, which may differ from the ttl that was requested. */
  readonly ttlMs: number;
  /** Requests a grant without waiting. After a lost answer, repeats the request as one attempt. */
  grant(resource: string, value: unknown): Promise<GrantOutcome>;
  /** Ends the session and its leases early, if the store can be reached. Never rejects. */
  end(): Promise<void>;
}

const TRIES_MAX = 3;

export async function openUnrenewedSession(
  parts: UnrenewedSessionParts,
  ttlMs: number,
): Promise<UnrenewedSession> {
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
    // The session has expired in the backend by then. This frees what the client keeps for it.
    clock.setTimer(() => void end(), opened.ttlMs);
    return { ttlMs: opened.ttlMs, grant, end };
  } catch (error) {
    await end();
    throw error;
  }
}
