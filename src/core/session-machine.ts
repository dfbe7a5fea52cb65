// The life of a session, decided purely: step(state, event) gives the next state and what to do. A session is what is
// renewed; every lease tied to it shares its deadline, its doubt and its end. `holder/session.ts` carries out the
// commands and feeds back what happened. Nothing here reads a clock: each event brings `now` along.
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
      /** Only a renewal that was sent after this instant ends the doubt. */
      readonly sentAfter: number;
      /** Renewals that failed in a row. */
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
  | { readonly type: "looked"; readonly now: number }
  | { readonly type: "clockJumped" }
  /** Only the wall clock moved forward: this machine may have been paused without any clock of it counting. */
  | { readonly type: "wallStepped"; readonly now: number }
  /** `inUse`: work still runs under a lease of this session, so the store must not let go before the ttl is over. */
  | { readonly type: "closed"; readonly inUse: boolean };

export type SessionCommand =
  /** Send a renewal that counts as failed after `limitMs`. */
  | { readonly do: "renew"; readonly limitMs: number }
  /** Bring `renewalDue` after this long. */
  | { readonly do: "renewAfter"; readonly delayMs: number }
  /** Bring `looked` at this instant, in case nobody looks earlier. */
  | { readonly do: "lookAt"; readonly at: number }
  | { readonly do: "leaveDoubt" }
  /** Tell every lease. `giveUp`: no lease needs the session, so the store may forget it at once. */
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

/** Retries crowd into what is left of the ttl, but not tighter than a store in trouble can bear. */
export function renewalBackoff(timing: Timing): Backoff {
  return { baseMs: Math.min(50, timing.renewEveryMs / 4), capMs: timing.renewEveryMs / 2 };
}

/** The store has just opened the session. It may already be too late to use it. */
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
      // Sent at this instant, it would not end the doubt.
      if (state.kind === "doubt" && event.now <= state.sentAfter)
        return { state, commands: [RENEW_SOON] };
      return {
        state,
        commands: [
          { do: "renew", limitMs: timing.roundTripMs },
          // The next one does not wait for the answer to this one: where a round trip may take longer than the interval,
          // that is what lets one renewal be lost (L3).
          { do: "renewAfter", delayMs: untilNextMs(state.sentAt, event.now, timing) },
        ],
      };
    case "renewed":
      // An answer that comes after the deadline is too late, even though the store said yes: the leases were already
      // lost at that instant, and what is lost is never revived (S6).
      if (event.now >= state.safeUntil) return outOfTime();
      // The late answer to an older request proves nothing: a newer one was confirmed, or the time since is unknown.
      if (event.sentAt <= proofAfter(state)) return { state, commands: [] };
      return confirm(event, timing, state.kind === "doubt" ? [{ do: "leaveDoubt" }] : []);
    case "renewalFailed":
      // A newer renewal than this one has been confirmed meanwhile.
      if (event.sentAt < state.sentAt) return { state, commands: [] };
      return doubt(state, event, timing);
    case "refused":
      return end("expired", "the store says that the session is gone");
    case "looked":
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
 * Two renewals leave within two intervals of the confirmed one: the availability inequality counts on the second (L3). The first
 * is late where the answer that confirmed took longer than an interval, as that to an opening may; the second is then not.
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
      { do: "lookAt", at: until },
    ],
  };
}

type Live = Extract<SessionState, { readonly safeUntil: number }>;

/** At once, but on any clock at a later instant: see `sentAfter`. Longer, and a renewal that is due now would be late (L3). */
const RENEW_SOON: SessionCommand = { do: "renewAfter", delayMs: 0.01 };

/** A renewal proves something only if it was sent after this instant. */
function proofAfter(state: Live): number {
  return state.kind === "doubt" ? state.sentAfter : state.sentAt;
}

/**
 * The store may have counted time that this machine did not. The deadline stays: it is not moved by a guess, and a wall clock
 * that was merely set must not cost a lease.
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
  event: { readonly now: number; readonly sentAt: number; readonly draw: number },
  timing: Timing,
): SessionStep {
  if (event.now >= state.safeUntil) return outOfTime();
  const failures = state.kind === "doubt" ? state.failures + 1 : 1;
  // Never later than the renewal that was due next anyway: the availability inequality counts on that one (L3).
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
