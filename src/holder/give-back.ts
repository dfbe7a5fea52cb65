// The last step of a lease: tell the store, conditionally on session and token. A lost answer is tried again a few
// times; then the next renewals carry it, and the ttl ends it at the latest. The caller never waits longer than that.

import type { Clock } from "../async/clock.ts";
import { pause, withLimit } from "../async/waits.ts";
import { backoffMs } from "../core/backoff.ts";
import { renewalBackoff } from "../core/session-machine.ts";
import type { LeaseRef, Store } from "../stores/contract.ts";
import type { Session } from "./session.ts";

const TRIES_MAX = 3;

export interface GiveBackParts extends LeaseRef {
  readonly store: Store;
  readonly clock: Clock;
  readonly session: Session;
  readonly attempt: string;
}

export async function giveBack(parts: GiveBackParts): Promise<"released" | "lost" | "unconfirmed"> {
  const { store, clock, session, resource, token, attempt } = parts;
  const limitMs = session.timing.roundTripMs;
  const request = { sessionId: session.sessionId, resource, token, limitMs };
  for (let failures = 0; failures < TRIES_MAX; ) {
    try {
      const outcome = await withLimit(clock, limitMs, "release", () => store.release(request));
      // After a lost answer, "not held" most likely means that the first request did it.
      return outcome.kind === "released" || failures > 0 ? "released" : "lost";
    } catch {
      failures += 1;
      if (session.end !== undefined) break;
      await pause(clock, backoffMs(renewalBackoff(session.timing), failures, 0.5));
    }
  }
  session.withdrawLater(resource, attempt);
  return "unconfirmed";
}
