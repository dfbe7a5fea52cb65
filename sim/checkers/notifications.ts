// Checks that a holder is notified in time (S6): of a revocation by its next renewal, and of the
// end of its lease when the drain limit has passed.

import { settlingMs } from "../faults/plan.ts";
import type { MakeChecker } from "./checker.ts";

/** Clocks are off by up to 5 %, and timers are never early. */
const CLOCK_FACTOR = 1.06;
/** A release may still be under way when the drain limit passes. */
const RELEASE_MS = 300;

/**
 * The first renewal that is sent after a revocation reports it. From its answer on, the holder may
 * not act.
 */
export const revocationsReachHolders: MakeChecker = () => {
  /** By session: when its newest confirmed renewal was sent. */
  const renewals = new Map<string, number>();
  const revoked = new Map<string, number>();
  return {
    on(event, facts, report) {
      if (event.kind === "renewed" && event.outcome === "renewed")
        renewals.set(
          event.session,
          Math.max(event.sentAtTrue, renewals.get(event.session) ?? Number.NEGATIVE_INFINITY),
        );
      if (event.kind === "storeFreed" && event.how === "revoked")
        revoked.set(toKey(event), event.at);
      // The revocation was undone.
      if (event.kind === "storeRestored") revoked.delete(toKey(event));
      if (event.kind !== "acted") return;
      const revokedAt = revoked.get(toKey(event)) ?? Number.POSITIVE_INFINITY;
      const session = facts.grant(event.resource, event.token)?.session ?? "";
      if ((renewals.get(session) ?? Number.NEGATIVE_INFINITY) > revokedAt)
        report(
          "S6",
          `${event.who} acts on ${event.resource} with ${event.token}, although a renewal has reported that it was revoked`,
        );
    },
  };
};

/** Checked in the calm phase only, because a stopped program cannot read its clock. */
export const drainsEnd: MakeChecker = (plan) => {
  const from = plan.faultyMs + settlingMs(plan);
  const limits = new Map<string, number>();
  return {
    on(event, _facts, report) {
      if (event.kind === "drained" && event.drainMs !== undefined && event.at > from)
        limits.set(toKey(event), event.at + event.drainMs * CLOCK_FACTOR + RELEASE_MS);
      if (event.kind !== "over") return;
      const limit = limits.get(toKey(event));
      if (limit !== undefined && event.at > limit)
        report(
          "S6",
          `${event.who} was notified of the end of ${event.resource} long after its drain`,
        );
    },
  };
};

function toKey(event: { readonly resource: string; readonly token: bigint }): string {
  return `${event.resource} ${event.token}`;
}
