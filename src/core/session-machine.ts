// The states of a session, as a pure function: stepSession(state, event) returns the next state and
// the commands to carry out. A session is the unit of renewal, and its leases share its deadline,
// its doubt and its end. `holder/session.ts` carries out the commands and reports the results as
// events. Nothing here reads a clock: each event includes `now`.
//
//   confirmed --renewal failed, wall clock stepped--> doubt --renewed--> confirmed
//       |                           |
//       +--- refused, deadline reached, clock jumped, unused, closed ---> ended

import { assertNever } from "./assert.ts";
import { type Backoff, backoffMs } from "./backoff.ts";
import { marginOver, safeUntil } from "./deadline.ts";
import type { LossReason } from "./errors.ts";
import type { Timing } from "./timing.ts";

export type SessionState =
  | { readonly kind: "confirmed"; readonly sentAt: number; readonly safeUntil: number }
  | {
      readonly kind: "doubt";
      readonly sentAt: number;
      readonly safeUntil: number;
      /** Only a renewal sent after this instant ends the doubt. */
      readonly sentAfter: number;
      /** The number of renewals that have failed in a row. */
      readonly failures: number;
    }
  | { readonly kind: "ended"; readonly reason: LossReason; readonly detail: string };

export type SessionEvent =
  | { readonly type: "renewalDue"; readonly now: number; readonly wanted: boolean }
  | {
      readonly type: "renewed";
      readonly now: number;
      readonly sentAt: number;
      readonly grantedTtlMs: number;
    }
  | {
      readonly type: "renewalFailed";
      readonly now: number;
      readonly sentAt: number;
      readonly draw: number;
    }
  | { readonly type: "refused" }
  | { readonly type: "deadlineCheck"; readonly now: number }
  | { readonly type: "clockJumped" }
  /**
   * Only the wall clock moved forward. The machine may have been paused while its monotonic clock
   * stood still.
   */
  | { readonly type: "wallStepped"; readonly now: number }
  /**
   * `inUse`: work still runs under a lease of this session, so the store must keep the session
   * until the ttl ends.
   */
  | { readonly type: "closed"; readonly inUse: boolean };

export type SessionCommand =
  /** Send a renewal that counts as failed after `limitMs`. */
  | { readonly do: "renew"; readonly limitMs: number }
  /** Deliver `renewalDue` after this delay. */
  | { readonly do: "renewAfter"; readonly delayMs: number }
  /** Deliver `deadlineCheck` at this instant. */
  | { readonly do: "checkAt"; readonly at: number }
  | { readonly do: "leaveDoubt" }
  /** Notify every lease. `giveUp`: no lease needs the session, so the store may end it at once. */
  | {
      readonly do: "end";
      readonly reason: LossReason;
      readonly detail: string;
      readonly giveUp: boolean;
    };

export interface SessionStep {
  readonly state: SessionState;
  readonly commands: readonly SessionCommand[];
}

/** Retries must fit into the rest of the ttl without overloading a store that is in trouble. */
export function renewalBackoff(timing: Timing): Backoff {
  return { baseMs: Math.min(50, timing.renewEveryMs / 4), capMs: timing.renewEveryMs / 2 };
}

/** The first step, after the store has opened the session. It may already be too late to use it. */
export function openSession(
  opened: { readonly sentAt: number; readonly grantedTtlMs: number; readonly now: number },
  timing: Timing,
): SessionStep {
  return confirm(opened, timing, []);
}

export function stepSession(state: SessionState, event: SessionEvent, timing: Timing): SessionStep {
  if (state.kind === "ended") return { state, commands: [] };
  switch (event.type) {
    case "renewalDue":
      if (event.now >= state.safeUntil) return outOfTime();
      if (!event.wanted) return end("released", "no lease needed the session any more", true);
      // A renewal sent at this very instant would not end the doubt.
      if (state.kind === "doubt" && event.now <= state.sentAfter)
        return { state, commands: [RENEW_SOON] };
      return {
        state,
        commands: [
          { do: "renew", limitMs: timing.roundTripMs },
          // The next renewal does not wait for the reply to this one. If a round trip can take
          // longer than the interval, this is what allows one renewal to be lost (L3).
          { do: "renewAfter", delayMs: untilNextMs(state.sentAt, event.now, timing) },
        ],
      };
    case "renewed":
      // A reply after the deadline is too late, even if the store has renewed: the leases were lost
      // at the deadline, and a lost lease never becomes valid again (S6).
      if (event.now >= state.safeUntil) return outOfTime();
      // A late reply to an older request proves nothing: a newer request was confirmed, or the time
      // that passed since is unknown.
      if (event.sentAt <= proofAfter(state)) return { state, commands: [] };
      return confirm(event, timing, state.kind === "doubt" ? [{ do: "leaveDoubt" }] : []);
    case "renewalFailed":
      // A newer renewal has been confirmed in the meantime.
      if (event.sentAt < state.sentAt) return { state, commands: [] };
      return doubt(state, event, timing);
    case "refused":
      return end("expired", "the store says that the session is gone");
    case "deadlineCheck":
      return event.now >= state.safeUntil ? outOfTime() : { state, commands: [] };
    case "clockJumped":
      return end(
        "expired",
        "the clock jumped (the machine was suspended or its clock was set back)",
      );
    case "wallStepped":
      return distrust(state, event.now);
    case "closed":
      return end("released", "the session was closed", !event.inUse);
    default:
      return assertNever(event);
  }
}

/**
 * How long until the next renewal. Two renewals must be sent within two intervals of the confirmed
 * one, because the availability inequality relies on the second (L3). If the confirming reply took
 * longer than an interval, as the reply to an opening may, the first of them is late, and then the
 * second must not be.
 */
function untilNextMs(confirmedSentAt: number, sentAt: number, { renewEveryMs }: Timing): number {
  const secondDueInMs = confirmedSentAt + 2 * renewEveryMs - sentAt;
  return secondDueInMs > 0 ? Math.min(renewEveryMs, secondDueInMs) : renewEveryMs;
}

function confirm(
  event: { readonly now: number; readonly sentAt: number; readonly grantedTtlMs: number },
  timing: Timing,
  before: readonly SessionCommand[],
): SessionStep {
  const until = safeUntil(event, marginOver(event.grantedTtlMs, timing));
  if (event.now >= until) return outOfTime();
  return {
    state: { kind: "confirmed", sentAt: event.sentAt, safeUntil: until },
    commands: [
      ...before,
      { do: "renewAfter", delayMs: Math.max(0, event.sentAt + timing.renewEveryMs - event.now) },
      { do: "checkAt", at: until },
    ],
  };
}

type Live = Extract<SessionState, { readonly safeUntil: number }>;

/**
 * Renew at once, but at a later instant on any clock (see `sentAfter`). A longer delay could make
 * the renewal late (L3).
 */
const RENEW_SOON: SessionCommand = { do: "renewAfter", delayMs: 0.01 };

/** A renewal proves something only if it was sent after this instant. */
function proofAfter(state: Live): number {
  return state.kind === "doubt" ? state.sentAfter : state.sentAt;
}

/**
 * The store may have counted time that this machine did not. The deadline does not change: its true
 * value is unknown, and a wall clock that was merely set must not end a lease.
 */
function distrust(state: Live, now: number): SessionStep {
  if (now >= state.safeUntil) return outOfTime();
  const failures = state.kind === "doubt" ? state.failures : 0;
  return {
    state: { ...state, kind: "doubt", sentAfter: now, failures },
    commands: [RENEW_SOON],
  };
}

function doubt(
  state: Live,
  event: Extract<SessionEvent, { readonly type: "renewalFailed" }>,
  timing: Timing,
): SessionStep {
  if (event.now >= state.safeUntil) return outOfTime();
  const failures = state.kind === "doubt" ? state.failures + 1 : 1;
  // Not later than the next regular renewal would have been: the availability inequality relies on
  // it (L3).
  const dueAt = event.sentAt + untilNextMs(state.sentAt, event.sentAt, timing);
  const dueInMs = Math.max(0, dueAt - event.now);
  const delayMs = Math.min(dueInMs, backoffMs(renewalBackoff(timing), failures, event.draw));
  return {
    state: { ...state, kind: "doubt", sentAfter: proofAfter(state), failures },
    commands: [{ do: "renewAfter", delayMs }],
  };
}

function outOfTime(): SessionStep {
  return end("expired", "no renewal was confirmed in time");
}

function end(reason: LossReason, detail: string, giveUp = false): SessionStep {
  return {
    state: { kind: "ended", reason, detail },
    commands: [{ do: "end", reason, detail, giveUp }],
  };
}
