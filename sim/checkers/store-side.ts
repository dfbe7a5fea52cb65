// Checks the store. Tokens rise (S1). By the store's own clock, a resource has at most one holder
// (S4). A grant ends only by a request of its holder, a revocation or expiry (S5).

import type { TraceEvent } from "../world/trace.ts";
import type { MakeChecker, Report } from "./checker.ts";
import type { Facts, Grant } from "./facts.ts";

/** Errors of converting instants between the store's clock and true time stay below this. */
const ROUNDING_MS = 0.01;

export const risingTokens: MakeChecker = () => ({
  on(event, facts, report) {
    if (event.kind !== "storeGranted") return;
    const newest = facts.newest(event.resource);
    if (newest === undefined || event.token > newest.token) return;
    const isRepeated = event.token === newest.token && event.session === newest.session;
    if (!isRepeated)
      report("S1", `${event.resource}: token ${event.token} granted after ${newest.token}`);
  },
});

export const oneHolder: MakeChecker = (plan) => ({
  on(event, facts, report) {
    if (event.kind !== "storeGranted") return;
    const { resource, token, session, at } = event;
    // A store that expires sessions in intervals may still grant to an expired one. This is
    // harmless: its holder has stopped long before.
    if (plan.storeLagMs === 0 && facts.session(session).until < at - ROUNDING_MS)
      report("S4", `${resource}: token ${token} granted to a session that had expired`);
    const before = facts.newest(resource);
    if (before === undefined || before.token === token) return;
    if (facts.isHeldAtStore(before, at + ROUNDING_MS))
      report("S4", `${resource}: token ${token} granted while ${before.token} was held`);
  },
});

/**
 * An attempt is never granted again after its holder has had the lease. Such a grant would come
 * from a delayed copy of the request, and no program would know of it. An attempt may be granted
 * again before that: the holder still retries it after the first grant was revoked.
 */
export const oneGrantPerAttempt: MakeChecker = ({ store }) => {
  const tokens = new Map<string, bigint>();
  const unacknowledged = NEWEST_ONLY.has(store) ? new UnacknowledgedGrants() : undefined;
  return {
    on(event, facts, report) {
      unacknowledged?.on(event, facts, report);
      if (event.kind !== "storeGranted") return;
      const name = `${event.resource} ${event.attempt}`;
      const before = tokens.get(name);
      tokens.set(name, event.token);
      if (before === undefined || before === event.token) return;
      if (facts.grant(event.resource, before)?.holder === undefined) return;
      if (unacknowledged !== undefined) unacknowledged.add(event);
      else
        report(
          "S5",
          `${event.resource}: one attempt was granted ${before} and then ${event.token}`,
        );
    },
  };
};

/**
 * Stores that remember only the newest attempt of a resource. They may grant a delayed copy, and
 * the session's renewals release it again (ADR 003). SQLite also remembers only the newest, but has
 * no network that could delay a copy.
 */
const NEWEST_ONLY: ReadonlySet<string> = new Set(["postgres", "redis"]);
/**
 * A renewal request lists the attempts to withdraw. The one under way when the copy arrives may
 * have been sent before the attempt was listed, and the next one may be late.
 */
const RENEWALS_MAX = 3;

/** Checks that grants of delayed copies, which no program knows of, are released by renewals. */
class UnacknowledgedGrants {
  readonly #grants = new Map<string, { readonly granted: Granted; renewals: number }>();

  add(granted: Granted): void {
    this.#grants.set(granted.resource, { granted, renewals: 0 });
  }

  on(event: TraceEvent, facts: Facts, report: Report): void {
    if (event.kind === "storeFreed" || event.kind === "storeGranted")
      this.#grants.delete(event.resource);
    if (event.kind !== "storeKept" || this.#grants.size === 0) return;
    for (const [resource, entry] of this.#grants) {
      const { granted } = entry;
      if (granted.session !== event.session) continue;
      entry.renewals += 1;
      const grant = facts.grant(resource, granted.token);
      if (entry.renewals <= RENEWALS_MAX || grant?.holder !== undefined) continue;
      this.#grants.delete(resource);
      report("S5", `${resource}: no program knows of ${granted.token}, and no renewal releases it`);
    }
  }
}

type Granted = Extract<TraceEvent, { kind: "storeGranted" }>;

export const conditionalEndings: MakeChecker = () => ({
  on(event, facts, report) {
    if (event.kind !== "storeFreed") return;
    const { resource, token, how } = event;
    const grant = facts.grant(resource, token);
    if (grant === undefined) return;
    const isAllowed = {
      // A failover may undo a revocation. The holder knows of the revocation and releases the
      // lease.
      released: grant.isReleaseSent || grant.freedAs === "revoked",
      withdrawn: grant.isReleaseSent || !isInUse(grant),
      sessionEnded: facts.session(grant.session).isEnded,
      revoked: true,
    }[how];
    if (!isAllowed)
      report(
        "S5",
        `${resource}: token ${token} was freed (${how}) without a request of its holder`,
      );
  },
});

function isInUse(grant: Grant): boolean {
  return grant.holder !== undefined && !grant.isOver;
}

/** Expiry times are converted between two clock rates. */
const ROUNDING = 1.002;
/** Some stores count in whole milliseconds. */
const WHOLE_MS = 2;

/** The store keeps a session for at most its ttl and the store's lag. */
export const sessionsExpire: MakeChecker = ({ ttlMs, storeLagMs, isBeyondBounds }) => ({
  on(event, facts, report) {
    if (event.kind !== "storeKept" || isBeyondBounds) return;
    const keptMs = event.until - event.at;
    // Sessions that are never renewed are the markers of once(), which have a ttl of their own.
    if (!facts.session(event.session).isRenewed) return;
    if (keptMs > ROUNDING * (ttlMs + storeLagMs) + WHOLE_MS)
      report(
        "L1",
        `the store keeps a session for ${keptMs.toFixed(0)} ms with a ttl of ${ttlMs} ms`,
      );
  },
});
