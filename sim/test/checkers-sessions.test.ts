// Goal: the checkers of renewals and sessions report the violations they exist for and accept
// correct traces. Method: small hand-written traces, each with and without the violation.
import { describe, expect, test } from "vitest";
import { renewEveryMs } from "../faults/plan.ts";
import type { TraceEventData } from "../world/trace.ts";
import {
  asked,
  check,
  grant,
  held,
  kept,
  NEVER,
  plan,
  r,
  renewal,
  type Step,
} from "./support/traces.ts";

describe("L3: loss of a lease", () => {
  const sent = { sentAt: 1, sentAtTrue: 1, ttlMs: plan.ttlMs, expiryLagMs: 0 };
  const opened: Step = [2, "p1", { kind: "opened", session: "a", ...sent }];
  /** The deadline of a session that was opened at 1. */
  const safeUntil = 1 + plan.ttlMs - plan.clockErrorMs - plan.roundTripMs;
  type Over = Extract<TraceEventData, { kind: "over" }>;
  const lost = (at: number, more: Partial<Over> = {}): Step => [
    at,
    "p1",
    { kind: "over", ...r, reason: "expired", now: at, steadySince: 0, jumpedAt: NEVER, ...more },
  ];
  const checkSession = (...steps: Step[]): string[] =>
    check(kept(1, 9_000), opened, grant(2, 1n), held, ...steps);
  const failed = (...sentAt: number[]): Step[] =>
    sentAt.flatMap((at) => [asked(at, "renew"), renewal("failed", at, at + plan.roundTripMs)]);

  test("a lease is lost only at its deadline and after two failed renewals", () => {
    expect(checkSession(...failed(670, 1_340), lost(safeUntil))).toEqual([]);
    expect(checkSession(...failed(670), lost(safeUntil))).toEqual([
      "L3: p1 lost r when 1 of its renewals were lost",
    ]);
    expect(checkSession(...failed(670, 1_340), lost(1_500))[0]).toContain(
      "before the end of its newest",
    );
    expect(checkSession(...failed(670), lost(770))[0]).toContain("before the end of its newest");
    expect(checkSession(...failed(670, 1_340), lost(1_500, { reason: "revoked" }))).toEqual([]);
  });

  test("a renewal that was sent too late to be answered does not count as failed", () => {
    expect(
      checkSession(...failed(670, safeUntil - plan.roundTripMs + 1), lost(safeUntil)),
    ).toHaveLength(1);
    expect(checkSession(...failed(670, safeUntil - plan.roundTripMs), lost(safeUntil))).toEqual([]);
  });

  test("a confirmed renewal counts from its sending, and a slow one may count or not", () => {
    const until = safeUntil + 669;
    const confirmed = [asked(670, "renew"), renewal("renewed", 670, 720)];
    expect(checkSession(...confirmed, ...failed(1_340, 2_010), lost(until))).toEqual([]);
    expect(checkSession(...confirmed, ...failed(1_340, 2_010), lost(safeUntil))).toHaveLength(1);
    expect(checkSession(...confirmed, ...failed(1_340), lost(until))).toHaveLength(1);
    const late = [asked(670, "renew"), renewal("renewed", 670, 790)];
    expect(checkSession(...late, ...failed(1_340), lost(safeUntil))).toEqual([]);
    expect(checkSession(...late, ...failed(1_340, 2_010), lost(until))).toEqual([]);
  });

  test("a lease may be lost early if its session is gone, its clock jumped or its program was stopped", () => {
    expect(checkSession(renewal("gone", 670, 720), lost(720))).toEqual([]);
    expect(checkSession([720, "p1", { kind: "toldGone", session: "a" }], lost(720))).toEqual([]);
    expect(checkSession(lost(720, { jumpedAt: 710 }))).toEqual([]);
    expect(checkSession(lost(720, { jumpedAt: 0 }))).toHaveLength(1);
    expect(checkSession(...failed(670), lost(safeUntil, { steadySince: 770 }))).toEqual([]);
    // A stop does not justify a loss before the deadline.
    expect(checkSession(...failed(670), lost(820, { steadySince: 770 }))).toHaveLength(1);
  });
});

describe("sessions", () => {
  test("L1: a session that is kept longer than its ttl is reported", () => {
    const renew = asked(5, "renew");
    expect(check(kept(10, 10 + plan.ttlMs))).toEqual([]);
    expect(check(renew, kept(10, 10 + plan.ttlMs))).toEqual([]);
    expect(check(renew, kept(10, 10 + 1.1 * plan.ttlMs))[0]).toContain("L1: the store keeps");
  });

  test("a renewal before it is due is reported if none has failed", () => {
    const sent = { sentAt: 1, sentAtTrue: 1, ttlMs: plan.ttlMs, expiryLagMs: 0 };
    const opened: Step = [2, "p1", { kind: "opened", session: "a", ...sent }];
    const every = renewEveryMs(plan);
    expect(check(opened, asked(1 + every, "renew"))).toEqual([]);
    expect(check(opened, asked(every - 1, "renew"))[0]).toContain("before it was due");
    const failed = [asked(1 + every, "renew"), renewal("failed", 1 + every, 20 + every)];
    expect(check(opened, ...failed, asked(40 + every, "renew"))).toEqual([]);
    // Two are under way. The first succeeds and the second fails, which justifies an early retry.
    const at = 40 + every;
    const two = [...failed, asked(at, "renew"), asked(at + 40, "renew")];
    const confirmed = [...two, renewal("renewed", at, at + 60)];
    const again = asked(at + 100, "renew");
    expect(check(opened, ...confirmed, renewal("failed", at + 40, at + 70), again)).toEqual([]);
    expect(check(opened, ...confirmed, again)).toHaveLength(1);
    // An answer after its time limit justifies an early retry, too.
    const answer = (afterMs: number): Step => renewal("renewed", at + 40, at + 40 + afterMs);
    const { roundTripMs } = plan;
    const soon = asked(at + 50 + roundTripMs, "renew");
    expect(check(opened, ...confirmed, answer(roundTripMs + 1), soon)).toEqual([]);
    expect(check(opened, ...confirmed, answer(roundTripMs - 1), soon)).toHaveLength(1);
  });
});
