// That the world goes on: after the calm every wanted resource has an active holder again (L1), nobody loses a lease for
// nothing (L3), a planned end leaves nothing behind (L4), and nobody asks more than there is reason to.

import { type Plan, settledMs } from "../plan.ts";
import type { MakeChecker } from "./checker.ts";

/** Beyond the ttl: a wait that lost its wake-up, the head start, a back-off, a slow piece of work before. */
const GRACE_MS = 3_000;
/** Asked of the store by one program in one second; it has five loops. */
const REQUESTS_MAX = 60;

export function lively(contended: readonly string[]): MakeChecker {
  return (plan) => {
    const until = livelyUntil(plan);
    const waiting = new Set(contended);
    return {
      on(event) {
        if (event.kind !== "acted" || event.at < plan.faultyMs || event.at > until) return;
        waiting.delete(event.resource);
      },
      end(_facts, report) {
        for (const resource of waiting)
          report(
            "L1",
            `nobody acted on ${resource} within ${Math.round(until - plan.faultyMs)} ms of calm`,
          );
      },
    };
  };
}

function livelyUntil(plan: Plan): number {
  return plan.faultyMs + settledMs(plan) + GRACE_MS;
}

export const calmKeepsLeases: MakeChecker = (plan) => ({
  on(event, _facts, report) {
    // What began in the faults may end up to a ttl later.
    if (event.at < plan.faultyMs + settledMs(plan)) return;
    if (event.kind === "over" && event.reason === "expired")
      report("L3", `${event.who} lost ${event.resource} in the calm`);
    if (event.kind === "failed" && event.code === "LEASE_IN_DOUBT")
      report("L3", `${event.who} was in doubt in the calm`);
  },
});

export const nothingLeftBehind: MakeChecker = (plan) => ({
  on(event, facts, report) {
    if (event.kind !== "closed" || event.at < plan.faultyMs + plan.calmMs) return;
    for (const grant of facts.all()) {
      const isHeld = grant.holder === event.who && facts.isHeldAtStore(grant, event.at);
      // Work that outlasted release() and then the session on the holder's side: only the ttl is left.
      const isLeft = grant.isOverrun && facts.session(grant.session).aliveAt <= grant.idleSince;
      const isOver = grant.lostAt !== undefined || isLeft;
      // What is given up is on its way.
      if (isHeld && !grant.isGivenUp && !isOver && grant.work === 0)
        report("L4", `${event.who} closed and left ${grant.resource} to its ttl`);
    }
  },
});

export const boundedRequests: MakeChecker = () => {
  const counts = new Map<string, { second: number; count: number }>();
  return {
    on(event, _facts, report) {
      if (event.kind !== "asked") return;
      const second = Math.floor(event.at / 1_000);
      const known = counts.get(event.who);
      const count = known?.second === second ? known.count + 1 : 1;
      counts.set(event.who, { second, count });
      if (count === REQUESTS_MAX + 1)
        report("requests", `${event.who} asked more than ${REQUESTS_MAX} times in a second`);
    },
  };
};

export const foreseenErrors: MakeChecker = () => ({
  on(event, _facts, report) {
    if (event.kind === "failed" && event.what === "workload")
      report("errors", `${event.who}: ${event.code}`);
  },
});
