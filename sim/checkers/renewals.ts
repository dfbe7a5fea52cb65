// One lost renewal loses nothing (L3), at any time of the day. What a session may count on follows from the numbers: it is
// confirmed for sentAt + grantedTtl - margin, and before a round trip is missing from that, two more renewals were sent
// (2 * renewEvery + roundTrip <= ttl - margin). So nothing runs out before that end, nor with fewer than two renewals lost.
// And where none fails, none is sent before an interval is over, except once after the wall clock was set forward. An answer to
// a renewal that was sent before that does not count.

import { type Plan, renewEveryMs } from "../faults/plan.ts";
import type { Traced } from "../world/trace.ts";
import type { MakeChecker } from "./checker.ts";

/** Timers are never early, by a thousandth of a millisecond; a ttl divided by three is not exact. */
const ROUNDING_MS = 0.1;
const LOST_MIN = 2;
const NEVER = Number.NEGATIVE_INFINITY;

/** What the newest confirmed renewal of a session, or its opening, gave it; by the holder's clock. */
interface Confirmed {
  readonly sentAt: number;
  readonly sentAtTrue: number;
  readonly safeUntil: number;
}

interface Renewals {
  confirmed: Confirmed;
  /** When the others were sent. */
  sent: number[];
  /** One that was sent behind it failed. */
  hasFailed: boolean;
  isGone: boolean;
}

export const renewals: MakeChecker = (plan) => {
  const everyMs = renewEveryMs(plan);
  const sessions = new Map<string, Renewals>();
  return {
    on(event, facts, report) {
      if (event.kind === "opened") {
        const confirmed = confirmedBy(plan, event);
        sessions.set(event.session, { confirmed, sent: [], hasFailed: false, isGone: false });
      }
      if (event.kind === "asked" && event.what === "renew") {
        const session = sessions.get(event.session);
        session?.sent.push(event.now);
        const earlyMs = isQuiet(session, event)
          ? session.confirmed.sentAt + everyMs - event.now
          : 0;
        if (earlyMs > ROUNDING_MS)
          report("requests", `${event.who} renewed ${earlyMs.toFixed(2)} ms before it was due`);
      }
      if (event.kind === "renewed") answered(plan, sessions.get(event.session), event);
      if (event.kind === "toldGone") {
        const known = sessions.get(event.session);
        if (known !== undefined) known.isGone = true;
      }
      if (event.kind !== "over" || event.reason !== "expired") return;
      const name = facts.grant(event.resource, event.token)?.session ?? "";
      const why = whyTooEarly(plan, sessions.get(name), event);
      if (why !== undefined) report("L3", `${event.who} lost ${event.resource} ${why}`);
    },
  };
};

function isQuiet(
  session: Renewals | undefined,
  { wallSteppedAt = NEVER }: Extract<Traced, { kind: "asked" }>,
): session is Renewals {
  if (session === undefined || session.hasFailed) return false;
  return wallSteppedAt < session.confirmed.sentAtTrue;
}

/** Undefined: it had to end. */
function whyTooEarly(
  { roundTripMs }: Plan,
  session: Renewals | undefined,
  { now, jumpedAt, steadySince }: Extract<Traced, { kind: "over" }>,
): string | undefined {
  if (session === undefined || session.isGone) return undefined;
  const { safeUntil, sentAtTrue } = session.confirmed;
  if (jumpedAt >= sentAtTrue) return undefined;
  const earlyMs = safeUntil - now;
  if (earlyMs > ROUNDING_MS)
    return `${earlyMs.toFixed(2)} ms before the end of its newest confirmed renewal`;
  // Who was stopped may have missed any of its renewals.
  if (steadySince > sentAtTrue) return undefined;
  const lost = session.sent.filter((sentAt) => sentAt <= safeUntil - roundTripMs + ROUNDING_MS);
  return lost.length < LOST_MIN ? `when ${lost.length} of its renewals were lost` : undefined;
}

function answered(
  plan: Plan,
  session: Renewals | undefined,
  event: Extract<Traced, { kind: "renewed" }>,
): void {
  if (session === undefined) return;
  const { outcome, now, sentAt } = event;
  if (outcome === "gone") session.isGone = true;
  const { confirmed } = session;
  // One that took longer counts as failed, or just not: for the holder to say.
  const isInTime = now - sentAt <= plan.roundTripMs && now < confirmed.safeUntil;
  if (outcome !== "renewed" || !isInTime) {
    if (sentAt >= confirmed.sentAt) session.hasFailed = true;
    return;
  }
  if (sentAt <= confirmed.sentAt || event.sentAtTrue <= (event.wallSteppedAt ?? NEVER)) return;
  session.confirmed = confirmedBy(plan, event);
  session.hasFailed = false;
  session.sent = session.sent.filter((other) => other > sentAt);
}

/** The deadline once more, from what the store granted. */
function confirmedBy(
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
