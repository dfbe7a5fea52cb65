// Checks progress. In the calm phase, every contended resource has an active holder again (L1), no
// holder loses a lease (L3), and a program that closes leaves no lease to expire (L4). At any time,
// programs send a bounded number of requests and see only expected errors.

import { type Plan, settlingMs } from "../faults/plan.ts";
import type { MakeChecker } from "./checker.ts";
import type { Facts } from "./facts.ts";

/**
 * Leases of crashed programs expire after the ttl and the store's lag, by a clock that may be slow.
 * Restarts take no longer.
 */
const CLOCK_FACTOR = 1.1;
/**
 * Stores that may give a session its full ttl a second time: SQLite when a session of the previous
 * boot is first seen, etcd and ZooKeeper when a new leader restarts all timeouts. This doubles the
 * limit, but never beyond the limit for all stores, `settlingMs` plus LATEST_GRACE_MS.
 */
const RESTARTS_TTL: ReadonlySet<string> = new Set(["sqlite", "etcd", "zookeeper"]);
const LATEST_GRACE_MS = 3_000;
/** Covers a warm-up or a poll after a lost wake-up (1 s), and some round trips. */
const GRACE_MS = 1_500;
/**
 * Requests of one program to the store in any second. At worst, six loops each send about five
 * grant requests and withdrawals until their back-off has grown from 25 ms, and renewals are
 * retried: somewhat more than 50. In 30,000 runs, four exceeded 50 and none exceeded this limit.
 */
const REQUESTS_MAX = 60;
const SECOND_MS = 1_000;
/** Requests that extend a session by its ttl. */
const EXTENDING_REQUESTS: ReadonlySet<string> = new Set(["openSession", "renew"]);

export function contendedResourcesActive(contended: readonly string[]): MakeChecker {
  return (plan) => {
    const actedAt = new Map<string, number>();
    const extensionSentAt = new Map<string, number>();
    const sentAt = ({ session }: { readonly session: string }): number =>
      extensionSentAt.get(session) ?? 0;
    const lateRenewals: LateRenewal[] = [];
    return {
      on(event, facts) {
        if (event.kind === "asked" && EXTENDING_REQUESTS.has(event.what))
          extensionSentAt.set(event.session, event.at);
        if (event.at < plan.faultyMs) return;
        if (event.kind === "storeKept" && event.at - sentAt(event) > plan.roundTripMs)
          for (const resource of contended)
            if (isHeldBy(event.session, resource, facts, event.at))
              lateRenewals.push({ ...event, resource });
        if (event.kind === "acted" && !actedAt.has(event.resource))
          actedAt.set(event.resource, event.at);
      },
      end(_facts, report) {
        for (const resource of contended) {
          let until = findActiveUntil(plan);
          for (const renewal of lateRenewals)
            if (renewal.resource === resource && sentAt(renewal) < renewal.at)
              until = Math.max(until, findActiveAfter(plan, renewal.until));
          if ((actedAt.get(resource) ?? Number.POSITIVE_INFINITY) <= until) continue;
          const withinMs = Math.round(until - plan.faultyMs);
          report("L1", `no program acted on ${resource} within ${withinMs} ms of calm`);
        }
      },
    };
  };
}

/**
 * A renewal that was sent during the faults may arrive in the calm phase, when its holder has
 * already left the session. The store then keeps the session for another ttl. We recognize such a
 * renewal because none was sent in the round trip before it arrived, and none is sent afterwards.
 */
interface LateRenewal {
  readonly resource: string;
  readonly session: string;
  readonly at: number;
  readonly until: number;
}

function isHeldBy(session: string, resource: string, facts: Facts, at: number): boolean {
  const newest = facts.newest(resource);
  return newest?.session === session && facts.isHeldAtStore(newest, at);
}

/** As `findActiveUntil`, if a late renewal keeps the session of a former holder. */
function findActiveAfter({ storeLagMs }: Plan, keptUntil: number): number {
  return keptUntil + CLOCK_FACTOR * storeLagMs + GRACE_MS;
}

/** The true instant by which every contended resource must have an active holder again. */
function findActiveUntil(plan: Plan): number {
  const onceMs = CLOCK_FACTOR * (plan.ttlMs + plan.storeLagMs) + GRACE_MS;
  const twiceMs = onceMs + CLOCK_FACTOR * (plan.ttlMs + plan.storeLagMs);
  const latestMs = settlingMs(plan) + LATEST_GRACE_MS;
  return plan.faultyMs + (RESTARTS_TTL.has(plan.store) ? Math.min(twiceMs, latestMs) : onceMs);
}

export const calmKeepsLeases: MakeChecker = (plan) => ({
  on(event, _facts, report) {
    // The effects of a fault may last until a ttl later.
    if (event.at < plan.faultyMs + settlingMs(plan)) return;
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
      // The work outlasted release() and the session at the holder, so the lease can only expire.
      const isAbandoned =
        grant.isOverrun && facts.session(grant.session).aliveAt <= grant.idleSince;
      const isOver = grant.lostAt !== undefined || isAbandoned;
      // A release that was sent is still under way.
      if (isHeld && !grant.isReleaseSent && !isOver && grant.work === 0)
        report("L4", `${event.who} closed and left ${grant.resource} to expire`);
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
      report("requests", `${event.who} sent more than ${REQUESTS_MAX} requests in a second`);
    },
  };
};

export const expectedErrors: MakeChecker = () => ({
  on(event, _facts, report) {
    if (event.kind === "failed" && event.what === "workload")
      report("errors", `${event.who}: ${event.code}`);
  },
});
