// Goal: L3, one lost renewal does not lose the lease; and what happens if more are lost. Method: a
// loop that carries out the machine's commands over a simulated network. Replies take a random
// time. A lost request fails when its connection breaks, or else at its time limit.
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

interface Network {
  /** How long the n-th request takes, as a fraction of roundTripMs. The opening is number 0. */
  readonly trips: readonly number[];
  readonly lost: ReadonlySet<number>;
  /** When a lost request fails, as a fraction of its time limit. */
  readonly failsAfter: number;
  readonly draw: number;
}

interface Run {
  readonly state: SessionState;
  /** How often the session entered doubt. */
  readonly doubts: number;
}

const REQUESTS = 8;

/** Carries out the commands. At most one renewal is due at a time, but several may be in flight. */
function run(timing: Timing, network: Network): Run {
  const trip = (request: number): number => (network.trips[request] ?? 0) * timing.roundTripMs;
  let now = trip(0);
  let dueAt = Number.POSITIVE_INFINITY;
  let requests = 1;
  let doubts = 0;
  let inDoubt = false;
  const inFlight: { readonly at: number; readonly event: SessionEvent }[] = [];
  const carryOut = (step: SessionStep): SessionState => {
    if (step.state.kind === "doubt" && !inDoubt) doubts += 1;
    inDoubt = step.state.kind === "doubt";
    for (const command of step.commands) {
      if (command.do === "renewAfter") dueAt = now + command.delayMs;
      if (command.do === "renew") inFlight.push(send(requests++, command.limitMs));
    }
    return step.state;
  };
  const send = (request: number, limitMs: number): (typeof inFlight)[number] => {
    const answered = !network.lost.has(request) && trip(request) <= limitMs;
    const at = now + (answered ? trip(request) : network.failsAfter * limitMs);
    return answered
      ? { at, event: { type: "renewed", now: at, sentAt: now, grantedTtlMs: timing.ttlMs } }
      : { at, event: { type: "renewalFailed", now: at, sentAt: now, draw: network.draw } };
  };
  let state = carryOut(openSession({ sentAt: 0, now, grantedTtlMs: timing.ttlMs }, timing));
  while (state.kind !== "ended" && (requests < REQUESTS || inFlight.length > 0)) {
    inFlight.sort((one, other) => one.at - other.at);
    const answer = inFlight[0];
    const nextDue = requests < REQUESTS ? dueAt : Number.POSITIVE_INFINITY;
    now = Math.min(answer?.at ?? Number.POSITIVE_INFINITY, nextDue);
    // The deadline is checked first if it comes first.
    const check = { type: "deadlineCheck", now: Math.min(now, state.safeUntil) } as const;
    state = carryOut(stepSession(state, check, timing));
    if (answer !== undefined && answer.at <= nextDue) {
      inFlight.shift();
      state = carryOut(stepSession(state, answer.event, timing));
    } else {
      state = carryOut(stepSession(state, { type: "renewalDue", now, wanted: true }, timing));
    }
  }
  return { state, doubts };
}

/** Healthy round trips, slightly below the limit: a reply exactly at the deadline is too late. */
const healthy = fc.array(fc.oneof(partOf(0.99), fc.constantFrom(0, 0.99)), {
  minLength: REQUESTS,
  maxLength: REQUESTS,
});
const oneLost = fc.record({
  trips: healthy,
  lost: fc.integer({ min: 1, max: REQUESTS - 2 }).map((request) => new Set([request])),
  failsAfter: fc.oneof(fc.constant(1), partOf(1)),
  draw: anyDraw,
});

/**
 * A lost renewal fails, and its retry is sent, before the next regular renewal would have been due.
 */
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
  test("L3: one lost renewal does not lose the lease if a retry fits into renewEveryMs", () => {
    fc.assert(
      fc.property(validTiming.filter(retriesInStep), oneLost, (timing, network) => {
        expect(run(timing, network)).toMatchObject({ state: { kind: "confirmed" }, doubts: 1 });
      }),
      { numRuns: 1_000 },
    );
  });

  test("L3: one lost renewal does not lose the lease with the defaults of any ttl", () => {
    const ttl = fc.integer({ min: 3_000, max: 86_400_000 });
    fc.assert(
      fc.property(ttl, oneLost, (ttlMs, network) => {
        expect(run(planTiming({ ttlMs }), network).state.kind).toBe("confirmed");
      }),
    );
  });

  // The opening takes at most two intervals. The first renewal cannot be sent before the reply to
  // the opening, so a slower opening leaves less time than the inequality relies on.
  test("L3: one lost renewal does not lose the lease with any durations that planTiming() accepts", () => {
    const slow: Timing = {
      ttlMs: 10_000,
      renewEveryMs: 1_000,
      clockErrorMs: 100,
      roundTripMs: 3_000,
      marginMs: 3_100,
    };
    // Request 6 is sent before the reply to request 4 has moved the deadline. Its reply comes after
    // the deadline that was valid when it was sent.
    const overtaken: [Timing, Network] = [
      { ttlMs: 48, renewEveryMs: 3, clockErrorMs: 0, roundTripMs: 21, marginMs: 21 },
      { trips: [0, 0, 0, 0, 0.296, 0, 0.858, 0.99], lost: new Set([5]), failsAfter: 1, draw: 0 },
    ];
    const trips = Array.from({ length: REQUESTS }, () => 0.9);
    const network = { trips, lost: new Set([2]), failsAfter: 1, draw: 0.5 };
    // The opening takes longer than an interval, and the first renewal after it is lost.
    const lateStart: [Timing, Network] = [
      { ttlMs: 1_741, renewEveryMs: 390, clockErrorMs: 22, roundTripMs: 469, marginMs: 491 },
      { trips: [0.9, 0.9, 0.99, 0.99, 0, 0, 0, 0], lost: new Set([1]), failsAfter: 1, draw: 0.5 },
    ];
    // The same, but the connection breaks: the backoff must not delay the retry beyond the time at
    // which the second renewal was due.
    const brokenOff: [Timing, Network] = [
      { ttlMs: 1_497, renewEveryMs: 307, clockErrorMs: 75, roundTripMs: 404, marginMs: 479 },
      { trips: [0.9, 0.9, 0.99, 0.99, 0, 0, 0, 0], lost: new Set([1]), failsAfter: 0.6, draw: 0.9 },
    ];
    fc.assert(
      fc.property(validTiming, oneLost, (timing, lost) => {
        fc.pre(isAccepted(timing));
        const [opening = 0, ...others] = lost.trips;
        const twoIntervals = (2 * timing.renewEveryMs) / timing.roundTripMs;
        const trips = [Math.min(opening, 0.99 * twoIntervals), ...others];
        // The session may still be in doubt after the last request of this test, but it is not
        // lost.
        expect(run(timing, { ...lost, trips }).state.kind).not.toBe("ended");
      }),
      { numRuns: 1_000, examples: [[slow, network], overtaken, lateStart, brokenOff] },
    );
  });

  test("without a lost renewal there is no doubt, however slow the healthy replies are", () => {
    fc.assert(
      fc.property(validTiming.filter(retriesInStep), healthy, (timing, trips) => {
        const network = { trips, lost: new Set<number>(), failsAfter: 1, draw: 0 };
        expect(run(timing, network)).toMatchObject({ state: { kind: "confirmed" }, doubts: 0 });
      }),
    );
  });

  test("S7: if every renewal is lost, the session ends by itself as expired", () => {
    const trips = Array.from({ length: REQUESTS }, () => 0.9);
    const lost = new Set(Array.from({ length: REQUESTS }, (_, request) => request + 1));
    const timing = planTiming({
      ttlMs: 3_000,
      roundTripMs: 600,
      clockErrorMs: 10,
      renewEveryMs: 500,
    });
    const { state, doubts } = run(timing, { trips, lost, failsAfter: 1, draw: 0.5 });
    expect(state).toMatchObject({ kind: "ended", reason: "expired" });
    expect(doubts).toBe(1);
  });
});
