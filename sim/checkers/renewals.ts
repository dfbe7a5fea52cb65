// Checks renewals. A single lost renewal never loses a lease (L3, in all phases). A confirmed
// renewal is valid until sentAt + grantedTtl - margin, and two more renewals are sent at least a
// round trip before that (2 * renewEvery + roundTrip <= ttl - margin). So no lease expires before
// that end, or with fewer than two renewals lost.
//
// As long as no renewal fails, the next one is not sent before the interval has passed, except once
// after the wall clock was set forward. A renewal sent before the step does not confirm anything.

import { type Plan, renewEveryMs } from "../faults/plan.ts";
import type { TraceEvent } from "../world/trace.ts";
import type { MakeChecker } from "./checker.ts";

/** Timers are late by a thousandth of a millisecond, and a third of the ttl is not exact. */
const ROUNDING_MS = 0.1;
const LOST_MIN = 2;
const NEVER = Number.NEGATIVE_INFINITY;

/** The newest confirmed renewal of a session, or its opening, by the holder's clock. */
interface Confirmed {
  readonly sentAt: number;
  readonly sentAtTrue: number;
  readonly safeUntil: number;
}

interface Renewals {
  confirmed: Confirmed;
  /** When later renewals were sent. */
  sent: number[];
  /** A later renewal failed. */
  hasFailed: boolean;
  isGone: boolean;
}

export const renewals: MakeChecker = (plan) => {
  const everyMs = renewEveryMs(plan);
  const sessions = new Map<string, Renewals>();
  return {
    on(event, facts, report) {
      if (event.kind === "opened") {
        const confirmed = toConfirmed(plan, event);
        sessions.set(event.session, { confirmed, sent: [], hasFailed: false, isGone: false });
      }
      if (event.kind === "asked" && event.what === "renew") {
        const session = sessions.get(event.session);
        session?.sent.push(event.now);
        const earlyMs = hasNoReasonToHurry(session, event)
          ? session.confirmed.sentAt + everyMs - event.now
          : 0;
        if (earlyMs > ROUNDING_MS)
          report("requests", `${event.who} renewed ${earlyMs.toFixed(2)} ms before it was due`);
      }
      if (event.kind === "renewed") applyAnswer(plan, sessions.get(event.session), event);
      if (event.kind === "toldGone") {
        const known = sessions.get(event.session);
        if (known !== undefined) known.isGone = true;
      }
      if (event.kind !== "over" || event.reason !== "expired") return;
      const name = facts.grant(event.resource, event.token)?.session ?? "";
      const why = explainEarlyLoss(plan, sessions.get(name), event);
      if (why !== undefined) report("L3", `${event.who} lost ${event.resource} ${why}`);
    },
  };
};

/** Whether no renewal failed and the wall clock was not set since the last confirmation. */
function hasNoReasonToHurry(
  session: Renewals | undefined,
  { wallSteppedAt = NEVER }: Extract<TraceEvent, { kind: "asked" }>,
): session is Renewals {
  if (session === undefined || session.hasFailed) return false;
  return wallSteppedAt < session.confirmed.sentAtTrue;
}

/** Returns undefined if the lease had to end. */
function explainEarlyLoss(
  { roundTripMs }: Plan,
  session: Renewals | undefined,
  { now, jumpedAt, steadySince }: Extract<TraceEvent, { kind: "over" }>,
): string | undefined {
  if (session === undefined || session.isGone) return undefined;
  const { safeUntil, sentAtTrue } = session.confirmed;
  if (jumpedAt >= sentAtTrue) return undefined;
  const earlyMs = safeUntil - now;
  if (earlyMs > ROUNDING_MS)
    return `${earlyMs.toFixed(2)} ms before the end of its newest confirmed renewal`;
  // A program that was stopped may have missed any of its renewals.
  if (steadySince > sentAtTrue) return undefined;
  const lost = session.sent.filter((sentAt) => sentAt <= safeUntil - roundTripMs + ROUNDING_MS);
  return lost.length < LOST_MIN ? `when ${lost.length} of its renewals were lost` : undefined;
}

function applyAnswer(
  plan: Plan,
  session: Renewals | undefined,
  event: Extract<TraceEvent, { kind: "renewed" }>,
): void {
  if (session === undefined) return;
  const { outcome, now, sentAt } = event;
  if (outcome === "gone") session.isGone = true;
  const { confirmed } = session;
  // A slower answer may or may not count at the holder, so we do not count it, which is the lenient
  // reading.
  const isInTime = now - sentAt <= plan.roundTripMs && now < confirmed.safeUntil;
  if (outcome !== "renewed" || !isInTime) {
    if (sentAt >= confirmed.sentAt) session.hasFailed = true;
    return;
  }
  if (sentAt <= confirmed.sentAt || event.sentAtTrue <= (event.wallSteppedAt ?? NEVER)) return;
  session.confirmed = toConfirmed(plan, event);
  session.hasFailed = false;
  session.sent = session.sent.filter((other) => other > sentAt);
}

/** Computes the deadline independently of the holder, from the ttl that the store granted. */
function toConfirmed(
  { ttlMs: askedMs, clockErrorMs, roundTripMs }: Plan,
  {
    sentAt,
    sentAtTrue,
    ttlMs,
  }: { readonly sentAt: number; readonly sentAtTrue: number; readonly ttlMs: number },
): Confirmed {
  const longer = Math.max(0, ttlMs / askedMs - 1);
  const marginMs = clockErrorMs + roundTripMs + clockErrorMs * longer;
  return { sentAt, sentAtTrue, safeUntil: sentAt + ttlMs - marginMs };
}
