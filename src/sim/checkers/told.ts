// What a holder has to be told: of a revocation with its renewals, and of the end when the time of a drain is over.

import { settledMs } from "../plan.ts";
import type { MakeChecker } from "./checker.ts";

/**
 * Of this many confirmed renewals, each sent after the one before, the last was sent behind the revocation: so many can be under
 * way at a time, where they fail and are tried again while older ones are still to be answered.
 */
const RENEWALS = 6;
/** Clocks are up to five in a hundred off, and a timer is not early. */
const SLACK = 1.06;
/** A release that was under way when the time was over. */
const RELEASE_MS = 300;

/** A third party's revocation reaches the holder with its next renewal: from there on it may not act. */
export const revocationsAreTold: MakeChecker = () => {
  const renewals = new Map<string, { readonly sentAt: number; readonly count: number }>();
  /** At how many renewals of its session the holder must know. */
  const revoked = new Map<string, number>();
  return {
    on(event, facts, report) {
      if (event.kind === "renewed" && event.outcome === "renewed") {
        const known = renewals.get(event.session);
        if (known !== undefined && event.sentAt <= known.sentAt) return;
        renewals.set(event.session, { sentAt: event.sentAt, count: (known?.count ?? 0) + 1 });
      }
      if (event.kind === "storeFreed" && event.how === "revoked") {
        const session = facts.grant(event.resource, event.token)?.session ?? "";
        revoked.set(nameOf(event), (renewals.get(session)?.count ?? 0) + RENEWALS);
      }
      if (event.kind !== "acted") return;
      const limit = revoked.get(nameOf(event));
      const session = facts.grant(event.resource, event.token)?.session ?? "";
      if (limit !== undefined && (renewals.get(session)?.count ?? 0) >= limit)
        report(
          "S6",
          `${event.who} acts on ${event.resource} with ${event.token}, revoked long ago`,
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
