// Goal: L3, one lost renewal loses nothing; and what happens when more are lost. Method: a network in a loop that
// carries out the machine's commands: answers take what the drawn trips say, a lost one shows when its connection breaks or,
// where it does not, by its time limit.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { anyDraw, partOf, validTiming } from "../../test/support/holder/holder-timings.ts";
import {
  openSession,
  renewalBackoff,
  type SessionEvent,
  type SessionState,
  type SessionStep,
  stepSession,
} from "./session-machine.ts";
import { planTiming, type Timing } from "./timing.ts";

interface Weather {
  /** How long the n-th request takes, as a part of roundTripMs; the opening is number 0. */
  readonly trips: readonly number[];
  readonly lost: ReadonlySet<number>;
  /** After what part of the limit a lost one shows; 1: by the limit only. */
  readonly shows: number;
  readonly draw: number;
}

interface Run {
  readonly state: SessionState;
  /** How often it was in doubt. */
  readonly doubts: number;
}

const REQUESTS = 8;

/** Carries out the commands: at most one renewal is due at a time, but several may be under way. */
function run(timing: Timing, weather: Weather): Run {
  const trip = (request: number): number => (weather.trips[request] ?? 0) * timing.roundTripMs;
  let now = trip(0);
  let dueAt = Number.POSITIVE_INFINITY;
  let requests = 1;
  let doubts = 0;
  let inDoubt = false;
  const underWay: { readonly at: number; readonly event: SessionEvent }[] = [];
  const carryOut = (step: SessionStep): SessionState => {
    if (step.state.kind === "doubt" && !inDoubt) doubts += 1;
    inDoubt = step.state.kind === "doubt";
    for (const command of step.commands) {
      if (command.do === "renewAfter") dueAt = now + command.delayMs;
      if (command.do === "renew") underWay.push(send(requests++, command.limitMs));
    }
    return step.state;
  };
  const send = (request: number, limitMs: number): (typeof underWay)[number] => {
    const answered = !weather.lost.has(request) && trip(request) <= limitMs;
    const at = now + (answered ? trip(request) : weather.shows * limitMs);
    return answered
      ? { at, event: { type: "renewed", now: at, sentAt: now, grantedTtlMs: timing.ttlMs } }
      : { at, event: { type: "renewalFailed", now: at, sentAt: now, draw: weather.draw } };
  };
  let state = carryOut(openSession({ sentAt: 0, now, grantedTtlMs: timing.ttlMs }, timing));
  while (state.kind !== "ended" && (requests < REQUESTS || underWay.length > 0)) {
    underWay.sort((one, other) => one.at - other.at);
    const answer = underWay[0];
    const nextDue = requests < REQUESTS ? dueAt : Number.POSITIVE_INFINITY;
    now = Math.min(answer?.at ?? Number.POSITIVE_INFINITY, nextDue);
    // The look at the deadline comes first when it is due first.
    const looked = { type: "looked", now: Math.min(now, state.safeUntil) } as const;
    state = carryOut(stepSession(state, looked, timing));
    if (answer !== undefined && answer.at <= nextDue) {
      underWay.shift();
      state = carryOut(stepSession(state, answer.event, timing));
    } else {
      state = carryOut(stepSession(state, { type: "renewalDue", now, wanted: true }, timing));
    }
  }
  return { state, doubts };
}

/** Healthy trips, just below the slowest that counts as one: an answer at the very deadline comes too late. */
const healthy = fc.array(fc.oneof(partOf(0.99), fc.constantFrom(0, 0.99)), {
  minLength: REQUESTS,
  maxLength: REQUESTS,
});
const oneLost = fc.record({
  trips: healthy,
  lost: fc.integer({ min: 1, max: REQUESTS - 2 }).map((request) => new Set([request])),
  shows: fc.oneof(fc.constant(1), partOf(1)),
  draw: anyDraw,
});

/** A lost renewal is noticed, and the pause after it is over, before the next one would have been due anyway. */
function retriesInStep(timing: Timing): boolean {
  return timing.roundTripMs + renewalBackoff(timing).baseMs <= timing.renewEveryMs;
}

function isAccepted(timing: Timing): boolean {
  try {
    return planTiming(timing) !== undefined;
  } catch {
    return false;
  }
}

describe("lost renewals", () => {
  test("L3: one lost renewal loses nothing where a retry fits into renewEveryMs", () => {
    fc.assert(
      fc.property(validTiming.filter(retriesInStep), oneLost, (timing, weather) => {
        expect(run(timing, weather)).toMatchObject({ state: { kind: "confirmed" }, doubts: 1 });
      }),
      { numRuns: 1_000 },
    );
  });

  test("L3: one lost renewal loses nothing with the default numbers of any ttl", () => {
    const ttl = fc.integer({ min: 3_000, max: 86_400_000 });
    fc.assert(
      fc.property(ttl, oneLost, (ttlMs, weather) => {
        expect(run(planTiming({ ttlMs }), weather).state.kind).toBe("confirmed");
      }),
    );
  });

  // Opened within two intervals, because the first renewal cannot be sent before the opening is answered: a slower one leaves less
  // time than the inequality counts on.
  test("L3: one lost renewal loses nothing with any numbers that planTiming accepts", () => {
    const slow: Timing = {
      ttlMs: 10_000,
      renewEveryMs: 1_000,
      clockErrorMs: 100,
      roundTripMs: 3_000,
      marginMs: 3_100,
    };
    // Request 6 is sent before the answer to 4 has moved the deadline, and answered after the deadline of its sending.
    const overtaken: [Timing, Weather] = [
      { ttlMs: 48, renewEveryMs: 3, clockErrorMs: 0, roundTripMs: 21, marginMs: 21 },
      { trips: [0, 0, 0, 0, 0.296, 0, 0.858, 0.99], lost: new Set([5]), shows: 1, draw: 0 },
    ];
    const trips = Array.from({ length: REQUESTS }, () => 0.9);
    const weather = { trips, lost: new Set([2]), shows: 1, draw: 0.5 };
    // The opening takes longer than an interval, and the first renewal, which leaves behind it, is lost.
    const lateStart: [Timing, Weather] = [
      { ttlMs: 1_741, renewEveryMs: 390, clockErrorMs: 22, roundTripMs: 469, marginMs: 491 },
      { trips: [0.9, 0.9, 0.99, 0.99, 0, 0, 0, 0], lost: new Set([1]), shows: 1, draw: 0.5 },
    ];
    // The same, and its connection breaks: the pause before the retry is no reason to send it later than the second was due.
    const brokenOff: [Timing, Weather] = [
      { ttlMs: 1_497, renewEveryMs: 307, clockErrorMs: 75, roundTripMs: 404, marginMs: 479 },
      { trips: [0.9, 0.9, 0.99, 0.99, 0, 0, 0, 0], lost: new Set([1]), shows: 0.6, draw: 0.9 },
    ];
    fc.assert(
      fc.property(validTiming, oneLost, (timing, lost) => {
        fc.pre(isAccepted(timing));
        const [opening = 0, ...others] = lost.trips;
        const twoIntervals = (2 * timing.renewEveryMs) / timing.roundTripMs;
        const trips = [Math.min(opening, 0.99 * twoIntervals), ...others];
        // It may still be in doubt after the last request that this world sends, but it is not lost.
        expect(run(timing, { ...lost, trips }).state.kind).not.toBe("ended");
      }),
      { numRuns: 1_000, examples: [[slow, weather], overtaken, lateStart, brokenOff] },
    );
  });

  test("without a loss there is no doubt, however slow the healthy answers are", () => {
    fc.assert(
      fc.property(validTiming.filter(retriesInStep), healthy, (timing, trips) => {
        const weather = { trips, lost: new Set<number>(), shows: 1, draw: 0 };
        expect(run(timing, weather)).toMatchObject({ state: { kind: "confirmed" }, doubts: 0 });
      }),
    );
  });

  test("S7: when every renewal is lost the session ends by itself, and ends as expired", () => {
    const trips = Array.from({ length: REQUESTS }, () => 0.9);
    const lost = new Set(Array.from({ length: REQUESTS }, (_, request) => request + 1));
    const timing = planTiming({
      ttlMs: 3_000,
      roundTripMs: 600,
      clockErrorMs: 10,
      renewEveryMs: 500,
    });
    const { state, doubts } = run(timing, { trips, lost, shows: 1, draw: 0.5 });
    expect(state).toMatchObject({ kind: "ended", reason: "expired" });
    expect(doubts).toBe(1);
  });
});
