// What the holders did: they stop before the store could let another in (S3), act only while certain and never on a lease
// that is over (S6), and give back only what nobody works under (S6).

import type { Traced } from "../world/trace.ts";
import type { MakeChecker, Report } from "./checker.ts";
import type { Facts, Grant } from "./facts.ts";

const ROUNDING_MS = 0.5;

type Acted = Extract<Traced, { kind: "acted" }>;

/** Not judged where the bounds were broken on purpose: there the guard has to do. */
export const deadline: MakeChecker = (plan) => ({
  on(event, facts, report) {
    if (event.kind !== "acted" || plan.isBeyondBounds) return;
    const { resource, token, at, who } = event;
    const grant = facts.grant(resource, token);
    const name = `${who} acts on ${resource} with ${token}`;
    if (grant === undefined) {
      report("S3", `${name}, which no store granted`);
      return;
    }
    // A third party may end a lease at any time, and the holder hears of it later.
    if (grant.freedAs === "revoked") return;
    if (grant.freedAs !== undefined) report("S3", `${name}, which is free (${grant.freedAs})`);
    const { until } = facts.session(grant.session);
    if (until <= at) report("S3", `${name} ${shown(at - until)} behind its expiry at the store`);
    // Begun at the last moment, an act still has to arrive: a round trip before the store's end.
    const lateMs = event.safeUntilTrue + plan.roundTripMs - until;
    if (lateMs > ROUNDING_MS)
      report("S3", `${name}; its safeUntil is ${shown(lateMs)} too close to the store's expiry`);
  },
});

export const certainActs: MakeChecker = () => ({
  on(event, facts, report) {
    if (event.kind === "acted") {
      if (event.now >= event.safeUntil)
        report("S6", `${nameOf(event)} ${shown(event.now - event.safeUntil)} behind its safeUntil`);
      mayStart(event, facts, report);
    }
    if (event.kind === "held" && event.now >= event.safeUntil)
      report("S6", `${event.who} was given ${event.resource} ${event.token} behind its safeUntil`);
    if (event.kind === "workBegan") {
      mayStart(event, facts, report);
      if (facts.grant(event.resource, event.token)?.isDraining)
        report("S6", `${event.who} began work on ${event.resource} while draining`);
    }
  },
});

function mayStart(
  event: Acted | Extract<Traced, { kind: "workBegan" }>,
  facts: Facts,
  report: Report,
): void {
  const grant = facts.grant(event.resource, event.token);
  if (grant === undefined) return;
  const { inDoubt, isGone } = facts.session(grant.session);
  if (inDoubt && !event.actsInDoubt) report("S6", `${nameOf(event)} in doubt`);
  if (isGone) report("S6", `${nameOf(event)} after the store said that the session is gone`);
  if (grant.isOver) report("S6", `${nameOf(event)} although it was told that the lease is over`);
  if (grant.isGivenUp) report("S6", `${nameOf(event)} after its release was sent`);
}

export const releaseBehindWork: MakeChecker = () => ({
  on(event, facts, report) {
    if (event.kind === "gaveUp") {
      const grant = facts.grant(event.resource, event.token);
      if (grant !== undefined && grant.work > 0) report("S6", early(grant));
    }
    if (event.kind === "endedSession") {
      for (const grant of facts.all()) {
        const isOfIt = grant.session === event.session && grant.freedAs === undefined;
        if (isOfIt && grant.work > 0 && grant.lostAt === undefined)
          report("S6", `${early(grant)}, by the end of its session`);
      }
    }
    if (event.kind === "releasedAs" && event.result === "released") {
      const grant = facts.grant(event.resource, event.token);
      if (grant !== undefined && facts.isHeldAtStore(grant, event.at))
        report("S5", `${event.resource}: ${event.token} is said to be released and still held`);
    }
  },
});

/**
 * Whoever leads obeys its `stopping` signal after its longest step. In the faults a step can take as long as its program is
 * stopped; a reign that was lost so long before the evening, all of it in the calm, is over by then.
 */
export function lostReignsEnd(resource: string, longestStepMs: number): MakeChecker {
  return ({ faultyMs, isBeyondBounds }) => ({
    on(event, facts, report) {
      if (event.kind !== "evening") return;
      // A step that began while a clock went at half its speed takes twice as long.
      const limitMs = isBeyondBounds ? 2 * longestStepMs : longestStepMs;
      for (const { resource: led, work, lostAt = event.at, holder, token } of facts.all()) {
        const calmMs = event.at - Math.max(lostAt, faultyMs);
        if (led === resource && work > 0 && calmMs > limitMs)
          report("S6", `${holder} leads on with ${token}, ${shown(calmMs)} after its loss`);
      }
    },
  });
}

function early(grant: Grant): string {
  return `${grant.resource}: token ${grant.token} was given up with work in flight`;
}

function nameOf(event: Traced & { readonly resource: string; readonly token: bigint }): string {
  const what = event.kind === "acted" ? "acted" : "began work";
  return `${event.who} ${what} on ${event.resource} with ${event.token}`;
}

function shown(ms: number): string {
  return `${ms.toFixed(2)} ms`;
}
