// What a holder has to be told: of a revocation with its renewals, and of the end when the time of a drain is over.

import { settledMs } from "../faults/plan.ts";
import type { MakeChecker } from "./checker.ts";

/** Clocks are up to five in a hundred off, and a timer is not early. */
const SLACK = 1.06;
/** A release that was under way when the time was over. */
const RELEASE_MS = 300;

/** A third party's revocation reaches the holder with the first renewal that it sends afterwards: from there on it may not act. */
export const revocationsAreTold: MakeChecker = () => {
  /** When the newest of a session's confirmed renewals was sent. */
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
        revoked.set(nameOf(event), event.at);
      // There is nothing to tell any more: it is held.
      if (event.kind === "storeRestored") revoked.delete(nameOf(event));
      if (event.kind !== "acted") return;
      const revokedAt = revoked.get(nameOf(event)) ?? Number.POSITIVE_INFINITY;
      const session = facts.grant(event.resource, event.token)?.session ?? "";
      if ((renewals.get(session) ?? Number.NEGATIVE_INFINITY) > revokedAt)
        report(
          "S6",
          `${event.who} acts on ${event.resource} with ${event.token}, though a renewal could tell that it was revoked`,
        );
    },
  };
};

/** In the calm, where nothing keeps the holder from looking at its clock. */
export const drainsEnd: MakeChecker = (plan) => {
  const from = plan.faultyMs + settledMs(plan);
  const limits = new Map<string, number>();
  return {
    on(event, _facts, report) {
      if (event.kind === "drained" && event.drainMs !== undefined && event.at > from)
        limits.set(nameOf(event), event.at + event.drainMs * SLACK + RELEASE_MS);
      if (event.kind !== "over") return;
      const limit = limits.get(nameOf(event));
      if (limit !== undefined && event.at > limit)
        report("S6", `${event.who} was told of the end of ${event.resource} long after its drain`);
    },
  };
};

function nameOf(event: { readonly resource: string; readonly token: bigint }): string {
  return `${event.resource} ${event.token}`;
}
