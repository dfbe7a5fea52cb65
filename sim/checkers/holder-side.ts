// Checks what holders do. A holder stops before the store can grant the resource to another (S3).
// It acts only while its lease is confirmed, and never on a lease that has ended (S6). It releases
// a lease only when no work is in flight under it (S6).

import type { TraceEvent } from "../world/trace.ts";
import type { MakeChecker, Report } from "./checker.ts";
import type { Facts, Grant } from "./facts.ts";

const ROUNDING_MS = 0.5;

type Acted = Extract<TraceEvent, { kind: "acted" }>;

/** Not checked if the run breaks the bounds on purpose: only the guard protects then. */
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
    // A third party may revoke a lease at any time, and the holder learns of it later.
    if (grant.freedAs === "revoked") return;
    if (grant.freedAs !== undefined) report("S3", `${name}, which is free (${grant.freedAs})`);
    const { until } = facts.session(grant.session);
    if (until <= at) report("S3", `${name} ${formatMs(at - until)} after its expiry at the store`);
    // An act that begins at the last moment must still arrive before the store's expiry.
    const lateMs = event.safeUntilTrue + plan.roundTripMs - until;
    if (lateMs > ROUNDING_MS)
      report("S3", `${name}; its safeUntil is ${formatMs(lateMs)} too close to the store's expiry`);
  },
});

export const certainActs: MakeChecker = () => ({
  on(event, facts, report) {
    if (event.kind === "acted") {
      if (event.now >= event.safeUntil)
        report(
          "S6",
          `${describeAct(event)} ${formatMs(event.now - event.safeUntil)} after its safeUntil`,
        );
      checkStart(event, facts, report);
    }
    if (event.kind === "held" && event.now >= event.safeUntil)
      report("S6", `${event.who} was given ${event.resource} ${event.token} after its safeUntil`);
    if (event.kind === "workBegan") {
      checkStart(event, facts, report);
      if (facts.grant(event.resource, event.token)?.isDraining)
        report("S6", `${event.who} began work on ${event.resource} while draining`);
    }
  },
});

function checkStart(
  event: Acted | Extract<TraceEvent, { kind: "workBegan" }>,
  facts: Facts,
  report: Report,
): void {
  const grant = facts.grant(event.resource, event.token);
  if (grant === undefined) return;
  const { inDoubt, isGone } = facts.session(grant.session);
  if (inDoubt && !event.actsInDoubt) report("S6", `${describeAct(event)} in doubt`);
  if (isGone) report("S6", `${describeAct(event)} after the store said that the session is gone`);
  if (grant.isOver) report("S6", `${describeAct(event)} after the lease ended`);
  if (grant.isReleaseSent) report("S6", `${describeAct(event)} after its release was sent`);
}

export const releaseAfterWork: MakeChecker = () => ({
  on(event, facts, report) {
    if (event.kind === "gaveUp") {
      const grant = facts.grant(event.resource, event.token);
      if (grant !== undefined && grant.work > 0) report("S6", describeEarlyRelease(grant));
    }
    if (event.kind === "endedSession") {
      for (const grant of facts.all()) {
        const endsWithIt = grant.session === event.session && grant.freedAs === undefined;
        if (endsWithIt && grant.work > 0 && grant.lostAt === undefined)
          report("S6", `${describeEarlyRelease(grant)}, by the end of its session`);
      }
    }
    if (event.kind === "releasedAs" && event.result === "released") {
      const grant = facts.grant(event.resource, event.token);
      if (grant !== undefined && facts.isHeldAtStore(grant, event.at))
        report("S5", `${event.resource}: ${event.token} is reported as released but still held`);
    }
  },
});

/**
 * A leader obeys its stop signal after its current step. During the faults, a step may take as long
 * as its program is stopped. So a term that was lost must have ended by shutdown, if at least one
 * longest step of the calm phase has passed since the loss.
 */
export function lostTermsEnd(resource: string, longestStepMs: number): MakeChecker {
  return ({ faultyMs, isBeyondBounds }) => ({
    on(event, facts, report) {
      if (event.kind !== "evening") return;
      // A step that began while the clock ran at half speed takes twice as long.
      const limitMs = isBeyondBounds ? 2 * longestStepMs : longestStepMs;
      for (const { resource: led, work, lostAt = event.at, holder, token } of facts.all()) {
        const calmMs = event.at - Math.max(lostAt, faultyMs);
        if (led === resource && work > 0 && calmMs > limitMs)
          report("S6", `${holder} still leads with ${token}, ${formatMs(calmMs)} after its loss`);
      }
    },
  });
}

function describeEarlyRelease(grant: Grant): string {
  return `${grant.resource}: token ${grant.token} was released with work in flight`;
}

function describeAct(
  event: TraceEvent & { readonly resource: string; readonly token: bigint },
): string {
  const verb = event.kind === "acted" ? "acted" : "began work";
  return `${event.who} ${verb} on ${event.resource} with ${event.token}`;
}

function formatMs(ms: number): string {
  return `${ms.toFixed(2)} ms`;
}
