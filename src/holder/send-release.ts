// Sends the release of a lease to the store. The store releases only if session and token still
// match. A lost answer is retried a few times; after that, renewals repeat the release, and the
// lease expires with its ttl at the latest. The caller waits only for the retries.

import type { Clock } from "../async/clock.ts";
import { pause, withLimit } from "../async/waits.ts";
import { backoffMs } from "../core/backoff.ts";
import { renewalBackoff } from "../core/session-machine.ts";
import type { LeaseRef, Store } from "../stores/contract.ts";
import type { Session } from "./session.ts";

const TRIES_MAX = 3;

export interface SendReleaseParts extends LeaseRef {
  readonly store: Store;
  readonly clock: Clock;
  readonly session: Session;
  readonly attempt: string;
}

export async function sendRelease(
  parts: SendReleaseParts,
  preferred: string | undefined,
): Promise<"released" | "lost" | "unconfirmed"> {
  const { store, clock, session, resource, token, attempt } = parts;
  const limitMs = session.timing.roundTripMs;
  const { sessionId } = session;
  const request = { sessionId, resource, token, preferred, limitMs };
  for (let failures = 0; failures < TRIES_MAX; ) {
    try {
      const outcome = await withLimit(clock, limitMs, "release", () => store.release(request));
      // After a lost answer, "not held" most likely means that an earlier request released it.
      return outcome.kind === "released" || failures > 0 ? "released" : "lost";
    } catch {
      failures += 1;
      if (session.end !== undefined) break;
      await pause(clock, backoffMs(renewalBackoff(session.timing), failures, 0.5));
    }
  }
  session.withdrawOnRenewal(resource, attempt);
  return "unconfirmed";
}
