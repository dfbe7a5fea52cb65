// Goal: a session never outlives its deadline, never returns after its end, and is in doubt after a
// failed renewal. Method: random events on a clock that only goes forward; every step is compared
// with the rules. lost-renewal.test.ts tests L3.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { anyDraw, partOf, validTiming } from "../../test/support/holder/holder-timings.ts";
import { marginOver } from "./deadline.ts";
import {
  openSession,
  renewalBackoff,
  type SessionCommand,
  type SessionEvent,
  type SessionState,
  type SessionStep,
  stepSession,
} from "./session-machine.ts";
import { planTiming, type Timing } from "./timing.ts";

interface DrawnEvent {
  readonly type: SessionEvent["type"];
  /**
   * As fractions of one ttl: the time since the last event, and the time since the answered request
   * was sent.
   */
  readonly after: number;
  readonly sentAgo: number;
  readonly grantedPart: number;
  readonly draw: number;
  readonly flag: boolean;
}

const drawnEvents: fc.Arbitrary<DrawnEvent[]> = fc.array(
  fc.record({
    // The first five are frequent. The others always end the session.
    type: fc.oneof(
      { weight: 9, arbitrary: fc.constantFrom("renewed", "renewalFailed", "deadlineCheck") },
      { weight: 3, arbitrary: fc.constantFrom("renewalDue", "wallStepped") },
      { weight: 1, arbitrary: fc.constantFrom("refused", "clockJumped", "closed") },
    ) as fc.Arbitrary<SessionEvent["type"]>,
    after: fc.oneof(fc.constant(0), partOf(0.4), partOf(1)),
    sentAgo: fc.oneof(fc.constant(0), partOf(0.2), partOf(1)),
    grantedPart: fc.constantFrom(0.5, 0.9, 1, 1, 1, 2),
    draw: anyDraw,
    flag: fc.boolean(),
  }),
  { maxLength: 30 },
);

interface Seen {
  readonly before: SessionState;
  readonly event: SessionEvent;
  readonly now: number;
  readonly step: SessionStep;
}

/** Applies the events one after another and passes every step to `judge`. */
function walk(timing: Timing, drawn: readonly DrawnEvent[], judge: (seen: Seen) => void): void {
  let now = 1_000;
  let { state } = openSession({ sentAt: now, now, grantedTtlMs: timing.ttlMs }, timing);
  for (const drawnEvent of drawn) {
    now += Math.round(drawnEvent.after * timing.ttlMs);
    const event = toEvent(drawnEvent, now, timing);
    const step = stepSession(state, event, timing);
    judge({ before: state, event, now, step });
    state = step.state;
  }
}

function toEvent(drawnEvent: DrawnEvent, now: number, timing: Timing): SessionEvent {
  const { type, draw, flag } = drawnEvent;
  switch (type) {
    case "renewalDue":
      return { type, now, wanted: flag };
    case "renewed": {
      const sentAt = now - Math.round(drawnEvent.sentAgo * timing.ttlMs);
      return { type, now, sentAt, grantedTtlMs: Math.round(drawnEvent.grantedPart * timing.ttlMs) };
    }
    case "renewalFailed":
      return { type, now, draw, sentAt: now };
    case "deadlineCheck":
    case "wallStepped":
      return { type, now };
    case "closed":
      return { type, inUse: flag };
    case "refused":
    case "clockJumped":
      return { type };
  }
}

function check(judge: (seen: Seen, timing: Timing) => void): void {
  fc.assert(
    fc.property(validTiming, drawnEvents, (timing, drawn) =>
      walk(timing, drawn, (seen) => judge(seen, timing)),
    ),
    { numRuns: 1_000 },
  );
}

/** Only a reply to a request sent after this instant counts. */
function proofAfter(state: Exclude<SessionState, { readonly kind: "ended" }>): number {
  return state.kind === "doubt" ? state.sentAfter : state.sentAt;
}

function did(step: SessionStep, what: SessionCommand["do"]): number {
  return step.commands.filter((command) => command.do === what).length;
}

describe("the end of a session", () => {
  test("S6: an ended session never returns and emits no commands", () => {
    check(({ before, step }) => {
      if (before.kind !== "ended") return;
      expect(step.state).toBe(before);
      expect(step.commands).toEqual([]);
    });
  });

  test("`end` is emitted exactly once, in the step that ends the session", () => {
    check(({ before, step }) => {
      const ends = before.kind !== "ended" && step.state.kind === "ended";
      expect(did(step, "end")).toBe(ends ? 1 : 0);
      if (ends) expect(step.commands).toHaveLength(1);
    });
  });

  test("S6: any event at or after safeUntil ends the session, even a successful renewal", () => {
    check(({ before, event, now, step }) => {
      if (before.kind === "ended" || !("now" in event) || now < before.safeUntil) return;
      expect(step.state).toMatchObject({ kind: "ended", reason: "expired" });
    });
  });

  test("before its deadline a session ends only for a stated reason", () => {
    check(({ before, event, now, step }, timing) => {
      if (before.kind === "ended" || now >= before.safeUntil) return;
      const alwaysEnds = ["refused", "clockJumped", "closed"].includes(event.type);
      const unwanted = event.type === "renewalDue" && !event.wanted;
      // The granted ttl ended before the reply arrived.
      const empty =
        event.type === "renewed" &&
        event.sentAt > proofAfter(before) &&
        now >= event.sentAt + event.grantedTtlMs - marginOver(event.grantedTtlMs, timing);
      expect(step.state.kind === "ended").toBe(alwaysEnds || unwanted || empty);
    });
  });

  test("`giveUp` is set only when no lease needs the session", () => {
    check(({ event, step }) => {
      for (const command of step.commands) {
        if (command.do !== "end") continue;
        const unused = event.type === "renewalDue" && !event.wanted;
        const closed = event.type === "closed" && !event.inUse;
        expect(command.giveUp).toBe((unused || closed) && command.reason === "released");
      }
    });
  });

  test.each([
    [{ type: "refused" }, "expired", /the store says/],
    [{ type: "clockJumped" }, "expired", /the clock jumped/],
    [{ type: "closed", inUse: true }, "released", /was closed/],
    [{ type: "deadlineCheck", now: 1e9 }, "expired", /no renewal was confirmed in time/],
  ] as const)("%o ends the session as %s", (event, reason, detail) => {
    const timing = planTiming();
    const { state } = openSession({ sentAt: 0, now: 0, grantedTtlMs: timing.ttlMs }, timing);
    const ended = stepSession(state, event, timing).state;
    expect(ended).toMatchObject({ kind: "ended", reason });
    expect(ended.kind === "ended" && ended.detail).toMatch(detail);
  });

  test("a session whose opening took longer than its usable ttl is ended from the start", () => {
    fc.assert(
      fc.property(validTiming, fc.integer({ min: 0, max: 50_000 }), (timing, tookMs) => {
        const opened = { sentAt: 0, now: tookMs, grantedTtlMs: timing.ttlMs };
        const late = tookMs >= timing.ttlMs - timing.marginMs;
        expect(openSession(opened, timing).state.kind).toBe(late ? "ended" : "confirmed");
      }),
    );
  });
});

describe("the deadline and doubt", () => {
  test("S3: only a confirmation moves safeUntil, to the granted ttl after that request was sent", () => {
    check(({ before, event, step }, timing) => {
      if (before.kind === "ended" || step.state.kind === "ended") return;
      if (step.state.safeUntil === before.safeUntil && step.state.sentAt === before.sentAt) return;
      expect(event.type).toBe("renewed");
      if (event.type !== "renewed") return;
      expect(event.sentAt).toBeGreaterThan(before.sentAt);
      const until = event.sentAt + event.grantedTtlMs - marginOver(event.grantedTtlMs, timing);
      expect(step.state.safeUntil).toBe(until);
      expect(step.commands).toContainEqual({ do: "checkAt", at: until });
    });
  });

  test("a late reply to an older request changes nothing", () => {
    check(({ before, event, now, step }) => {
      if (before.kind === "ended" || event.type !== "renewed") return;
      if (now >= before.safeUntil || event.sentAt > proofAfter(before)) return;
      expect(step).toEqual({ state: before, commands: [] });
    });
  });

  test("a failed renewal that is older than the confirmed one causes no doubt", () => {
    const timing = planTiming({ ttlMs: 10_000 });
    const { state } = openSession({ sentAt: 5_000, now: 5_001, grantedTtlMs: 10_000 }, timing);
    const failed = { type: "renewalFailed", now: 5_100, draw: 0 } as const;
    const older = stepSession(state, { ...failed, sentAt: 4_999 }, timing);
    expect(older).toEqual({ state, commands: [] });
    const newer = stepSession(state, { ...failed, sentAt: 5_050 }, timing);
    expect(newer.state.kind).toBe("doubt");
  });

  test("S6: a failed renewal or a wall clock step starts doubt, and only a confirmation ends it", () => {
    check(({ before, event, step }) => {
      const was = before.kind === "doubt";
      const is = step.state.kind === "doubt";
      const causes = ["renewalFailed", "wallStepped"];
      if (!was && is) expect(causes).toContain(event.type);
      if (causes.includes(event.type)) expect(step.state.kind).not.toBe("confirmed");
      const confirmed = was && step.state.kind === "confirmed";
      expect(did(step, "leaveDoubt")).toBe(confirmed ? 1 : 0);
      if (confirmed) expect(event.type).toBe("renewed");
    });
  });

  test("S3: after a wall clock step, only a renewal sent later ends the doubt", () => {
    fc.assert(
      fc.property(validTiming, drawnEvents, (timing, drawn) => {
        let steppedAt = Number.NEGATIVE_INFINITY;
        walk(timing, drawn, ({ event, step }) => {
          if (event.type === "wallStepped") steppedAt = event.now;
          if (step.state.kind !== "confirmed") return;
          expect(step.state.sentAt).toBeGreaterThan(steppedAt);
        });
      }),
      { numRuns: 1_000 },
    );
  });

  test("a wall clock step does not change the deadline, and a renewal follows at once", () => {
    check(({ before, event, now, step }) => {
      if (event.type !== "wallStepped" || before.kind === "ended" || now >= before.safeUntil)
        return;
      expect(step.state).toMatchObject({ kind: "doubt", safeUntil: before.safeUntil });
      expect(step.commands).toContainEqual({ do: "renewAfter", delayMs: 0.01 });
    });
  });

  test("failures in a row are counted, and a confirmation resets the count", () => {
    check(({ before, event, step }) => {
      if (step.state.kind !== "doubt" || event.type !== "renewalFailed") return;
      const earlier = before.kind === "doubt" ? before.failures : 0;
      expect(step.state.failures).toBe(earlier + 1);
    });
  });
});

describe("renewals", () => {
  test("every reply to a live session schedules the next renewal, never in the past", () => {
    check(({ before, event, step }, timing) => {
      for (const command of step.commands) {
        if (command.do !== "renewAfter") continue;
        expect(command.delayMs).toBeGreaterThanOrEqual(0);
        expect(command.delayMs).toBeLessThanOrEqual(timing.renewEveryMs);
      }
      if (step.state.kind === "ended" || step.state === before) return;
      if (event.type === "renewed" || event.type === "renewalFailed") {
        expect(did(step, "renewAfter")).toBe(1);
      }
    });
  });

  test("a due renewal is sent once, and its time limit is at most a healthy round trip", () => {
    check(({ before, event, step }, timing) => {
      const isDue =
        event.type === "renewalDue" && before.kind !== "ended" && step.state.kind !== "ended";
      // At the instant of a wall clock step a renewal would prove nothing.
      const isLater = isDue && before.kind === "doubt" && event.now <= before.sentAfter;
      expect(did(step, "renew")).toBe(isDue && !isLater ? 1 : 0);
      for (const command of step.commands) {
        if (command.do !== "renew") continue;
        expect(command.limitMs).toBeLessThanOrEqual(timing.roundTripMs);
        expect(command.limitMs).toBeGreaterThanOrEqual(0);
      }
    });
  });

  test("a confirmed session renews a third of the ttl after it sent the last confirmed request", () => {
    const timing = planTiming({ ttlMs: 9_000 });
    const { commands } = openSession({ sentAt: 100, now: 400, grantedTtlMs: 9_000 }, timing);
    expect(commands).toContainEqual({ do: "renewAfter", delayMs: 2_700 });
    const slow = openSession({ sentAt: 100, now: 5_000, grantedTtlMs: 9_000 }, timing);
    expect(slow.commands).toContainEqual({ do: "renewAfter", delayMs: 0 });
  });

  test("retries start quickly, and their delay is at most half the renewal interval", () => {
    expect(renewalBackoff(planTiming())).toEqual({ baseMs: 50, capMs: 10_000 / 6 });
    const fast = planTiming({ ttlMs: 90, clockErrorMs: 1, roundTripMs: 5 });
    expect(renewalBackoff(fast)).toEqual({ baseMs: 7.5, capMs: 15 });
  });
});
