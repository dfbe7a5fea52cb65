// What the store did: tokens rise (S1), one holder by its own clock (S4), and nothing is freed that its holder did not give up
// (S5).

import type { Traced } from "../world/trace.ts";
import type { MakeChecker, Report } from "./checker.ts";
import type { Facts, Grant } from "./facts.ts";

/** True instants go through two rates and back. */
const ROUNDING_MS = 0.01;

export const risingTokens: MakeChecker = () => ({
  on(event, facts, report) {
    if (event.kind !== "storeGranted") return;
    const newest = facts.newest(event.resource);
    if (newest === undefined || event.token > newest.token) return;
    const isRepeated = event.token === newest.token && event.session === newest.session;
    if (!isRepeated)
      report("S1", `${event.resource}: token ${event.token} granted behind ${newest.token}`);
  },
});

export const oneHolder: MakeChecker = (plan) => ({
  on(event, facts, report) {
    if (event.kind !== "storeGranted") return;
    const { resource, token, session, at } = event;
    // A store that removes expired sessions in rounds may still find one; its holder has stopped long before.
    if (plan.storeLagMs === 0 && facts.session(session).until < at - ROUNDING_MS)
      report("S4", `${resource}: token ${token} granted to a session that had expired`);
    const before = facts.newest(resource);
    if (before === undefined || before.token === token) return;
    if (facts.isHeldAtStore(before, at + ROUNDING_MS))
      report("S4", `${resource}: token ${token} granted while ${before.token} was held`);
  },
});

/**
 * Once its holder has had the lease, an attempt is never granted again: that would be a copy that came late, and nobody
 * would know of it. Before, it may be: the holder is still asking, and a third party ended what it never heard of.
 */
export const oneGrantAnAttempt: MakeChecker = ({ store }) => {
  const tokens = new Map<string, bigint>();
  const unheard = NEWEST_ONLY.has(store) ? new Unheard() : undefined;
  return {
    on(event, facts, report) {
      unheard?.on(event, facts, report);
      if (event.kind !== "storeGranted") return;
      const name = `${event.resource} ${event.attempt}`;
      const before = tokens.get(name);
      tokens.set(name, event.token);
      if (before === undefined || before === event.token) return;
      if (facts.grant(event.resource, before)?.holder === undefined) return;
      if (unheard !== undefined) unheard.add(event);
      else
        report(
          "S5",
          `${event.resource}: one attempt was granted ${before} and then ${event.token}`,
        );
    },
  };
};

/**
 * Stores that know the newest attempt of a resource and no older one: there the renewals give a late copy back (ADR 003). SQLite
 * knows no more, but between a program and its own disk no copy comes late.
 */
const NEWEST_ONLY: ReadonlySet<string> = new Set(["postgres", "redis"]);
/** The one that is under way when the copy arrives names nothing yet; the next does, and may be answered late. */
const RENEWALS_MAX = 3;

/** Grants that nobody knows of. */
class Unheard {
  readonly #grants = new Map<string, { readonly granted: Granted; renewals: number }>();

  add(granted: Granted): void {
    this.#grants.set(granted.resource, { granted, renewals: 0 });
  }

  on(event: Traced, facts: Facts, report: Report): void {
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
      report("S5", `${resource}: nobody knows of ${granted.token}, and no renewal gives it back`);
    }
  }
}

type Granted = Extract<Traced, { kind: "storeGranted" }>;

export const conditionalEndings: MakeChecker = () => ({
  on(event, facts, report) {
    if (event.kind !== "storeFreed") return;
    const { resource, token, how } = event;
    const grant = facts.grant(resource, token);
    if (grant === undefined) return;
    const why = {
      // A failover may undo a revocation, and then its holder, who was told, gives it back.
      released: grant.isGivenUp || grant.freedAs === "revoked",
      withdrawn: grant.isGivenUp || !isInUse(grant),
      sessionEnded: facts.session(grant.session).isEnded,
      revoked: true,
    }[how];
    if (!why)
      report("S5", `${resource}: token ${token} was freed (${how}), which its holder never asked`);
  },
});

function isInUse(grant: Grant): boolean {
  return grant.holder !== undefined && !grant.isOver;
}
