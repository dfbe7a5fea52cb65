// That the world goes on: after the calm every wanted resource has an active holder again (L1), nobody loses a lease for
// nothing (L3), a planned end leaves nothing behind (L4), and nobody asks more than there is reason to.

import { type Plan, settledMs } from "../faults/plan.ts";
import type { MakeChecker } from "./checker.ts";
import type { Facts } from "./facts.ts";

/** What was held by the dead when the calm began ends with its ttl and the store's lag; what was killed starts again as late. */
const AS_LATE = 1.1;
/**
 * Some stores give sessions their ttl once more: SQLite those of the boot before when somebody first sees them, etcd and ZooKeeper
 * all of them with a new leader, whose clocks start anew. That is as late again, and never more than was asked of every store
 * before they were told apart.
 */
const ONCE_MORE: ReadonlySet<string> = new Set(["sqlite", "etcd", "zookeeper"]);
const LATEST_GRACE_MS = 3_000;
/** Beyond that: a warm-up or a wait that lost its wake-up in the faults (1 s), the head start, and some round trips. */
const GRACE_MS = 1_500;
/**
 * Asked of the store by one program in any second, by all of its loops. At worst it opens and closes with all of them: six that
 * ask, withdraw, wait and ask again after a back-off of at least 25 ms, five times each before that has doubled enough, and the
 * retries of its renewals. That is 50 and some; on four of 30,000 days there were more than 50, on none more than this.
 */
const REQUESTS_MAX = 60;
const SECOND_MS = 1_000;
/** Requests with which a session lives for a ttl more. */
const KEEPING: ReadonlySet<string> = new Set(["openSession", "renew"]);

export function lively(contended: readonly string[]): MakeChecker {
  return (plan) => {
    const actedAt = new Map<string, number>();
    const askedAt = new Map<string, number>();
    const sentAt = ({ session }: { readonly session: string }): number => askedAt.get(session) ?? 0;
    const late: Kept[] = [];
    return {
      on(event, facts) {
        if (event.kind === "asked" && KEEPING.has(event.what)) askedAt.set(event.session, event.at);
        if (event.at < plan.faultyMs) return;
        if (event.kind === "storeKept" && event.at - sentAt(event) > plan.roundTripMs)
          for (const resource of contended)
            if (isHeldBy(event.session, resource, facts, event.at))
              late.push({ ...event, resource });
        if (event.kind === "acted" && !actedAt.has(event.resource))
          actedAt.set(event.resource, event.at);
      },
      end(_facts, report) {
        for (const resource of contended) {
          let until = livelyUntil(plan);
          for (const kept of late)
            if (kept.resource === resource && sentAt(kept) < kept.at)
              until = Math.max(until, livelyBehind(plan, kept.until));
          if ((actedAt.get(resource) ?? Number.POSITIVE_INFINITY) <= until) continue;
          const withinMs = Math.round(until - plan.faultyMs);
          report("L1", `nobody acted on ${resource} within ${withinMs} ms of calm`);
        }
      },
    };
  };
}

interface Kept {
  readonly resource: string;
  readonly session: string;
  readonly at: number;
  readonly until: number;
}

function isHeldBy(session: string, resource: string, facts: Facts, at: number): boolean {
  const newest = facts.newest(resource);
  return newest?.session === session && facts.isHeldAtStore(newest, at);
}

/**
 * A renewal that was sent in the faults and arrives in the calm is the last of the faults. It is known by this: none was sent a
 * round trip ago, and none is sent afterwards, because its holder has left the session. But to the store it lives on.
 */
function livelyBehind({ storeLagMs }: Plan, keptUntil: number): number {
  return keptUntil + AS_LATE * storeLagMs + GRACE_MS;
}

function livelyUntil(plan: Plan): number {
  const onceMs = AS_LATE * (plan.ttlMs + plan.storeLagMs) + GRACE_MS;
  const againMs = onceMs + AS_LATE * (plan.ttlMs + plan.storeLagMs);
  const latestMs = settledMs(plan) + LATEST_GRACE_MS;
  return plan.faultyMs + (ONCE_MORE.has(plan.store) ? Math.min(againMs, latestMs) : onceMs);
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
  const recent = new Map<string, number[]>();
  return {
    on(event, _facts, report) {
      if (event.kind !== "asked") return;
      const since = event.at - SECOND_MS;
      const asked = (recent.get(event.who) ?? []).filter((at) => at > since);
      asked.push(event.at);
      recent.set(event.who, asked);
      if (asked.length <= REQUESTS_MAX) return;
      recent.delete(event.who);
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
