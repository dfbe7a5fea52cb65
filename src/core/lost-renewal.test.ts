// Goal: L3, one lost renewal loses nothing; and what happens when more are lost. Method: a network in a loop that
// carries out the machine's commands: answers take what the drawn trips say, a lost one shows by its time limit only.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { validTiming } from "../../test/support/holder-timings.ts";
import {
  openSession,
  renewalBackoff,
  type SessionState,
  type SessionStep,
  stepSession,
} from "./session-machine.ts";
import { planTiming, type Timing } from "./timing.ts";

interface Weather {
  /** How long the n-th request takes, as a part of roundTripMs; the opening is number 0. */
  readonly trips: readonly number[];
  readonly lost: ReadonlySet<number>;
  readonly draw: number;
}

interface Run {
  readonly state: SessionState;
  /** How often it was in doubt. */
  readonly doubts: number;
}

const REQUESTS = 8;

function run(timing: Timing, weather: Weather): Run {
  const trip = (request: number): number => (weather.trips[request] ?? 0) * timing.roundTripMs;
  let now = trip(0);
  let doubts = 0;
  let step = openSession({ sentAt: 0, now, grantedTtlMs: timing.ttlMs }, timing);
  for (let request = 1; request < REQUESTS && step.state.kind !== "ended"; request += 1) {
    now = dueAt(step, now);
    // The look at the deadline comes first when it is due first.
    const looked = { type: "looked", now: Math.min(now, step.state.safeUntil) } as const;
    step = stepSession(step.state, looked, timing);
    step = stepSession(step.state, { type: "renewalDue", now, wanted: true }, timing);
    const limitMs = step.commands.find((command) => command.do === "renew")?.limitMs;
    if (limitMs === undefined) break;
    const sentAt = now;
    const answered = !weather.lost.has(request) && trip(request) <= limitMs;
    now += answered ? trip(request) : limitMs;
    step = answered
      ? stepSession(
          step.state,
          { type: "renewed", now, sentAt, grantedTtlMs: timing.ttlMs },
          timing,
        )
      : stepSession(step.state, { type: "renewalFailed", now, draw: weather.draw }, timing);
    doubts += step.commands.filter((command) => command.do === "enterDoubt").length;
  }
  return { state: step.state, doubts };
}

function dueAt(step: SessionStep, now: number): number {
  const delayMs = step.commands.find((command) => command.do === "renewAfter")?.delayMs;
  return now + (delayMs ?? Number.NaN);
}

/** Healthy trips, just below the slowest that counts as one: an answer at the very deadline comes too late. */
const healthy = fc.array(fc.double({ min: 0, max: 0.99, noNaN: true }), {
  minLength: REQUESTS,
  maxLength: REQUESTS,
});
const oneLost = fc.record({
  trips: healthy,
  lost: fc.integer({ min: 1, max: REQUESTS - 2 }).map((request) => new Set([request])),
  draw: fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true }),
});

/** A lost renewal is noticed, and the pause after it is over, before the next one would have been due anyway. */
function retriesInStep(timing: Timing): boolean {
  return timing.roundTripMs + renewalBackoff(timing).baseMs <= timing.renewEveryMs;
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

  // KNOWN BUG: with a roundTripMs near or above renewEveryMs the loss is noticed so late that the retry does not fit,
  // although planTiming() accepted the numbers. The availability inequality counts on a renewal every renewEveryMs, but
  // none is sent while another waits for its answer.
  test("L3: one lost renewal loses nothing with any numbers that planTiming accepts", () => {
    const accepted = { ttlMs: 10_000, renewEveryMs: 1_000, clockErrorMs: 100, roundTripMs: 3_000 };
    const timing = planTiming(accepted);
    const trips = [0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9];
    const weather = { trips, lost: new Set([2]), draw: 0.5 };
    fc.assert(
      fc.property(validTiming, oneLost, (drawn, lost) => {
        expect(run(drawn, lost).state.kind).toBe("confirmed");
      }),
      { numRuns: 1_000, examples: [[timing, weather]] },
    );
  });

  test("without a loss there is no doubt, however slow the healthy answers are", () => {
    fc.assert(
      fc.property(validTiming.filter(retriesInStep), healthy, (timing, trips) => {
        const weather = { trips, lost: new Set<number>(), draw: 0 };
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
    const { state, doubts } = run(timing, { trips, lost, draw: 0.5 });
    expect(state).toMatchObject({ kind: "ended", reason: "expired" });
    expect(doubts).toBe(1);
  });
});
