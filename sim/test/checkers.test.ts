// Goal: every checker reports the violations it exists for and accepts correct traces. Method:
// small hand-written traces, each with and without the violation. Renewals and waiters are in
// checkers-waits.test.ts.
import { describe, expect, test } from "vitest";
import { checkTrace } from "../checkers/judge.ts";
import { fireCheckStart } from "../checkers/once.ts";
import { WINDOW_MS } from "../workloads/once.ts";
import type { TraceEventData } from "../world/trace.ts";
import { CONTENDED } from "../world/world.ts";
import {
  act,
  asked,
  begin,
  CALM,
  check,
  checkWithPlan,
  freed,
  given,
  grant,
  held,
  kept,
  over,
  plan,
  r,
  renewal,
  type Step,
} from "./support/traces.ts";

test("a correct term has no violation", () => {
  expect(check(...begin, [10, "p1", act()])).toEqual([]);
});

describe("the store's side", () => {
  test("S1: a token that does not rise is reported", () => {
    const next = [kept(2_500, 5_000, "b"), grant(2_501, 1n, "b")];
    expect(check(...begin, ...next)).toEqual(["S1: r: token 1 granted after 1"]);
    expect(check(...begin, kept(2_500, 5_000, "b"), grant(2_501, 2n, "b"))).toEqual([]);
  });

  test("S4: a second grant of a held resource and a grant to an expired session are reported", () => {
    const early = check(...begin, kept(10, 5_000, "b"), grant(11, 2n, "b"));
    expect(early).toEqual(["S4: r: token 2 granted while 1 was held"]);
    expect(check(...begin, grant(2_500, 2n))).toEqual([
      "S4: r: token 2 granted to a session that had expired",
    ]);
  });

  test("S5: an attempt may get the same token again, but not a new one", () => {
    expect(check(...begin, grant(20, 1n))).toEqual([]);
    const again = { kind: "storeGranted", resource: "r", token: 2n, session: "a" } as const;
    const late: Step = [30, "store", { ...again, attempt: "a.1" }];
    const gaveUp: Step = [10, "p1", { kind: "gaveUp", ...r }];
    expect(check(...begin, gaveUp, freed(20, "released"), late)).toEqual([
      "S5: r: one attempt was granted 1 and then 2",
    ]);
  });

  test("S5: on a store that remembers only the newest attempt, renewals release a delayed copy", () => {
    const redis = { ...plan, store: "redis" };
    const again = { kind: "storeGranted", resource: "r", token: 2n, session: "a" } as const;
    const checkAfterCopy = (...then: Step[]): string[] =>
      checkWithPlan(redis, [
        ...begin,
        [10, "p1", { kind: "gaveUp", ...r }],
        freed(20, "released"),
        [30, "store", { ...again, attempt: "a.1" }],
        ...then,
      ]);
    const renewals = [40, 50, 60, 70].map((at) => kept(at, 5_000));
    const back: Step = [65, "store", { kind: "storeFreed", ...r, token: 2n, how: "withdrawn" }];
    expect(checkAfterCopy(...renewals)).toEqual([
      "S5: r: no program knows of 2, and no renewal releases it",
    ]);
    expect(checkAfterCopy(...renewals.slice(0, 3), back, ...renewals.slice(3))).toEqual([]);
  });

  test("S5: a grant ends only by a request of its holder or a revocation", () => {
    const [message] = check(...begin, freed(20, "released"));
    expect(message).toContain("S5: r: token 1 was freed (released)");
    expect(check(...begin, freed(20, "withdrawn"))).toHaveLength(1);
    expect(check(...begin, freed(20, "sessionEnded"))).toHaveLength(1);
    expect(check(...begin, freed(20, "revoked"))).toEqual([]);
    // A failover may undo a revocation. The holder knows of it and releases the lease.
    expect(check(...begin, freed(20, "revoked"), freed(30, "released"))).toEqual([]);
    expect(check(...begin, freed(20, "revoked"), freed(30, "sessionEnded"))).toHaveLength(1);
    const gaveUp: Step = [10, "p1", { kind: "gaveUp", ...r }];
    expect(check(...begin, gaveUp, freed(20, "released"))).toEqual([]);
    expect(check(kept(1, 2_000), grant(2, 1n), freed(20, "withdrawn"))).toEqual([]);
  });
});

describe("the holder's side", () => {
  test("S3: an act after the expiry, on a free resource, or with a deadline too late is reported", () => {
    expect(check(...begin, [2_100, "p1", act()])[0]).toContain("100.00 ms after its expiry");
    const late = act({ safeUntilTrue: 1_950 });
    expect(check(...begin, [10, "p1", late])[0]).toContain("50.00 ms too close");
    expect(check(...begin, [10, "p1", act({ safeUntilTrue: 1_900 })])).toEqual([]);
    const ended: Step[] = [
      [10, "p1", { kind: "endedSession", session: "a" }],
      freed(20, "sessionEnded"),
    ];
    expect(check(...begin, ...ended, [30, "p1", act()])[0]).toContain("which is free");
    expect(check(...begin, freed(20, "revoked"), [30, "p1", act()])).toEqual([]);
    expect(check([1, "p1", act()])[0]).toContain("which no store granted");
  });

  test("S6: an act after safeUntil, in doubt, after the end of the lease or after its release is reported", () => {
    const checkAct = (...before: Step[]): string | undefined =>
      check(...begin, ...before, [100, "p1", act()])[0];
    expect(check(...begin, [10, "p1", act({ now: 1 })])[0]).toContain("after its safeUntil");
    expect(checkAct(renewal("failed", 1, 51))).toContain("in doubt");
    expect(checkAct(renewal("failed", 1, 51), renewal("renewed", 2, 52))).toBeUndefined();
    expect(checkAct(renewal("renewed", 2, 52), renewal("failed", 3, 53))).toContain("in doubt");
    expect(checkAct(renewal("gone", 1, 51))).toContain("the session is gone");
    expect(checkAct([50, "p1", over("expired")])).toContain("after the lease ended");
    expect(checkAct([50, "p1", { kind: "gaveUp", ...r }])).toContain("after its release");
    const allowed: Step = [100, "p1", act({ actsInDoubt: true })];
    expect(check(...begin, renewal("failed", 1, 51), allowed)).toEqual([]);
  });

  test("S6: a lease that is returned after its safeUntil is reported", () => {
    const late: Step = [5, "p1", { ...given, now: 2 }];
    expect(check(kept(1, 2_000), grant(2, 1n), late)[0]).toContain("was given r 1");
  });

  test("S6: a release with work in flight and work that begins while draining are reported", () => {
    const began: Step = [10, "p1", { kind: "workBegan", ...r, actsInDoubt: false }];
    const ended: Step = [15, "p1", { kind: "workEnded", ...r }];
    const gaveUp: Step = [20, "p1", { kind: "gaveUp", ...r }];
    const end: Step = [20, "p1", { kind: "endedSession", session: "a" }];
    expect(check(...begin, began, gaveUp)[0]).toContain("released with work in flight");
    expect(check(...begin, began, end)[0]).toContain("by the end of its session");
    expect(check(...begin, began, ended, gaveUp)).toEqual([]);
    expect(check(...begin, [7, "p1", { kind: "drained", ...r }], began)[0]).toContain("draining");
    expect(check(...begin, began, [15, "p1", { kind: "crashed" }], end)).toEqual([]);
  });

  test("S6: a leader that continues after its term was lost is reported", () => {
    const lead = { resource: "leader", token: 1n } as const;
    const until = kept(1, 2_000);
    const granted: Step = [
      2,
      "store",
      { kind: "storeGranted", ...lead, session: "a", attempt: "a.1" },
    ];
    const began: Step = [10, "p1", { kind: "workBegan", ...lead, actsInDoubt: false }];
    const lost: Step = [20, "p1", over("expired", lead)];
    const ended: Step = [30, "p1", { kind: "workEnded", ...lead }];
    const shutdown = (at: number): Step => [at, "world", { kind: "evening" }];
    const late = shutdown(CALM + 1_000);
    expect(check(until, granted, began, lost, late)[0]).toContain("still leads with 1");
    expect(check(until, granted, began, lost, ended, late)).toEqual([]);
    // The program may have been stopped in the middle of a step until the faults ended.
    expect(check(until, granted, began, lost, shutdown(CALM + 900))).toEqual([]);
    // Beyond the bounds, a clock may have run at half speed.
    const beyond = { ...plan, isBeyondBounds: true };
    expect(checkWithPlan(beyond, [until, granted, began, lost, late])).toEqual([]);
    const later = shutdown(CALM + 2_000);
    expect(checkWithPlan(beyond, [until, granted, began, lost, later])).toHaveLength(1);
    const lostLate: Step = [CALM + 500, "p1", over("revoked", lead)];
    expect(check(until, granted, began, lostLate, shutdown(CALM + 1_400))).toEqual([]);
  });

  test("S5: a lease that is reported as released but still held is a violation", () => {
    const said: Step = [20, "p1", { kind: "releasedAs", ...r, result: "released" }];
    expect(check(...begin, said)[0]).toContain("still held");
    expect(
      check(...begin, [10, "p1", { kind: "gaveUp", ...r }], freed(15, "released"), said),
    ).toEqual([]);
  });
});

describe("the resource's side", () => {
  test("S2: a guard that admits a stale write or rejects another is reported", () => {
    const wrote = (outcome: "admitted" | "refused", stale: boolean, guarded = true): Step => [
      10,
      "p1",
      { kind: "wrote", ...r, guarded, sent: "at once", outcome, stale },
    ];
    expect(check(wrote("admitted", true))[0]).toContain("admitted 1 after a higher");
    expect(check(wrote("refused", false))[0]).toContain("rejected 1, which is not stale");
    expect(check(wrote("refused", true))).toEqual([]);
    expect(check(wrote("admitted", true, false))).toEqual([]);
  });

  test("S2: a lease that is returned before its guard advanced is reported", () => {
    const guarded: Step = [5, "p1", { ...given, withGuards: true }];
    const advanced = (at: number, token = 1n): Step => [
      at,
      "p1",
      { kind: "advanced", ...r, token },
    ];
    const checkAcquire = (...steps: Step[]): string[] =>
      check(kept(1, 2_000), grant(2, 1n), ...steps, guarded);
    expect(checkAcquire(advanced(4))).toEqual([]);
    const early = ["S2: p1 was given r 1 before its guard was advanced"];
    expect(checkAcquire()).toEqual(early);
    expect(checkAcquire(advanced(6))).toEqual(early);
    expect(checkAcquire(advanced(4, 0n))).toEqual(early);
    expect(check(kept(1, 2_000), grant(2, 1n), held)).toEqual([]);
  });
});

describe("liveness", () => {
  test("L1: a contended resource without an act in the calm phase is reported", () => {
    const messages = checkTrace(plan, []).map(({ message }) => message);
    for (const resource of CONTENDED)
      expect(messages.some((message) => message.includes(`acted on ${resource}`))).toBe(true);
  });

  test("L1: a renewal from the faults that arrives in the calm phase extends the limit", () => {
    const lock = { resource: "lock/0", token: 1n };
    const until = CALM + 3_800;
    const checkActAt = (actsAt: number, ...steps: Step[]): string[] => {
      const others = CONTENDED.filter((resource) => resource !== lock.resource);
      const all: Step[] = [
        asked(1, "openSession"),
        kept(2, CALM + 1_900),
        [3, "store", { kind: "storeGranted", ...lock, session: "a", attempt: "a.1" }],
        asked(CALM - 200, "renew"),
        ...others.map((resource): Step => [CALM + 1, "p9", act({ resource, token: 9n })]),
        ...steps,
        [actsAt, "p2", act({ resource: lock.resource, token: 2n })],
      ];
      const events = all.map(([at, who, data]) => ({ at, who, ...data }));
      const found = checkTrace(plan, events).filter(({ invariant }) => invariant === "L1");
      return found.map(({ message }) => message);
    };
    const late = kept(CALM + 1_800, until);
    const tooLate = until + 1_600;
    expect(checkActAt(CALM + 3_600)).toEqual([]);
    expect(checkActAt(until + 1_400)).toHaveLength(1);
    expect(checkActAt(until + 1_400, late)).toEqual([]);
    expect(checkActAt(tooLate, late)).toEqual([
      "no program acted on lock/0 within 5300 ms of calm",
    ]);
    // A holder that renews in the calm phase has not left its session and must act.
    expect(checkActAt(until + 1_400, late, asked(CALM + 1_900, "renew"))).toHaveLength(1);
    // A renewal of another session changes nothing.
    expect(checkActAt(until + 1_400, kept(CALM + 1_800, until, "b"))).toHaveLength(1);
  });

  test("L3: a loss or a doubt in the calm phase is reported", () => {
    const late = CALM + 2 * plan.ttlMs;
    expect(check([late, "p1", over("expired")])).toHaveLength(1);
    const doubt: Step = [late, "p1", { kind: "failed", what: "check", code: "LEASE_IN_DOUBT" }];
    expect(check(doubt)).toHaveLength(1);
    expect(check([late, "p1", over("released")])).toEqual([]);
  });

  test("L4: a program that closes and leaves a lease to expire is reported", () => {
    const evening = CALM + plan.calmMs;
    const holds: Step[] = [kept(1, evening + 9_000), grant(2, 1n), held];
    const closed: Step = [evening + 1, "p1", { kind: "closed" }];
    expect(check(...holds, closed)[0]).toContain("left r to expire");
    const gaveUp: Step = [evening, "p1", { kind: "gaveUp", ...r }];
    expect(check(...holds, gaveUp, closed)).toEqual([]);
    // A killed program releases nothing, and its successor does not know its leases.
    const crashed: Step = [evening - 9, "p1", { kind: "crashed" }];
    expect(check(...holds, crashed, closed)).toEqual([]);
    const drained: Step = [evening - 9, "p1", { kind: "drained", ...r }];
    expect(check(...holds, drained, closed)).toHaveLength(1);
    const overrun: Step = [evening - 8, "p1", { kind: "releasedAs", ...r, result: "overrun" }];
    expect(check(...holds, drained, overrun, closed)).toEqual([]);
    // The session was still alive when the work ended, so the lease had to be released.
    const alive = renewal("failed", evening - 7, evening - 6);
    expect(check(...holds, drained, overrun, alive, closed)).toHaveLength(1);
  });

  test("L4: a lease may expire if its work outlasts the drain and the session", () => {
    const evening = CALM + plan.calmMs;
    const holds: Step[] = [kept(1, evening + 9_000), grant(2, 1n), held];
    const began: Step = [evening - 10, "p1", { kind: "workBegan", ...r, actsInDoubt: false }];
    const drained: Step = [evening - 9, "p1", { kind: "drained", ...r, drainMs: 1 }];
    const limit: Step = [evening - 8, "p1", over("released")];
    const lost: Step = [evening - 7, "p1", { kind: "releasedAs", ...r, result: "lost" }];
    const ended: Step = [evening - 6, "p1", { kind: "workEnded", ...r }];
    const closed: Step = [evening + 1, "p1", { kind: "closed" }];
    const first: Step[] = [...holds, began, drained, limit];
    expect(check(...first, lost, ended, closed)).toEqual([]);
    // The session was not lost, or only after the work ended, so the lease had to be released.
    const alive = renewal("failed", evening - 5, evening - 4);
    expect(check(...first, lost, ended, alive, closed)).toHaveLength(1);
    const lostLater: Step = [evening - 5, "p1", { kind: "releasedAs", ...r, result: "lost" }];
    expect(check(...first, ended, lostLater, closed)).toHaveLength(1);
    expect(check(...first, ended, closed)).toHaveLength(1);
  });

  test("too many requests in a second and unexpected errors are reported", () => {
    const many = Array.from({ length: 100 }, () => asked(10, "grant"));
    expect(check(...many)[0]).toContain("requests: p1 sent");
    expect(check([10, "p1", { kind: "failed", what: "workload", code: "TypeError" }])).toEqual([
      "errors: p1: TypeError",
    ]);
  });
});

describe("notifications of the holder", () => {
  const renewed = (at: number, sentAt: number): Step => renewal("renewed", sentAt, at);

  test("S6: an act after a renewal that reported a revocation is a violation", () => {
    const gone: Step[] = [...begin, renewed(10, 9), freed(20, "revoked")];
    // Renewals that were under way at the revocation do not report it.
    const underWay = [renewed(21, 17), renewed(22, 18), renewed(23, 19)];
    expect(check(...gone, ...underWay, [30, "p1", act()])).toEqual([]);
    expect(check(...gone, renewed(25, 21), [30, "p1", act()])[0]).toContain("it was revoked");
    // A failover may undo the revocation.
    const restored: Step = [22, "store", { kind: "storeRestored", ...r }];
    expect(check(...gone, restored, renewed(25, 23), [30, "p1", act()])).toEqual([]);
    // A late answer to an older renewal changes nothing.
    expect(check(...gone, renewed(25, 21), renewed(26, 8), [30, "p1", act()])).toHaveLength(1);
  });

  test("S6: a drain that continues after its limit is reported", () => {
    const at = CALM + 1.5 * plan.ttlMs + 1;
    const drain: Step = [at, "p1", { kind: "drained", ...r, drainMs: 500 }];
    const ended = (afterMs: number): Step => [at + afterMs, "p1", over("released")];
    expect(check(...begin, drain, ended(600))).toEqual([]);
    expect(check(...begin, drain, ended(2_000))[0]).toContain("long after its drain");
    const patient: Step = [at, "p1", { kind: "drained", ...r }];
    expect(check(...begin, patient, ended(2_000))).toEqual([]);
  });
});

describe("scheduled jobs", () => {
  type FireStep = Extract<TraceEventData, { kind: "fire" }>["step"];
  const fire = (at: number, who: string, number: number, step: FireStep, offMs = 0): Step => [
    at,
    who,
    { kind: "fire", fire: number, step, wall: at + offMs },
  ];
  const run = (at: number, who: string, number: number, offMs = 0): Step[] => [
    fire(at, who, number, "called", offMs),
    fire(at + 1, who, number, "began", offMs),
  ];

  test("each fire runs at most once, and fires run in order", () => {
    expect(check(...run(10, "p1", 4), ...run(100, "p2", 5))).toEqual([]);
    expect(check(...run(10, "p1", 4), ...run(100, "p2", 4))).toEqual([
      "once: p2 runs fire 4, which already ran on p1",
    ]);
    expect(check(...run(10, "p1", 5), ...run(100, "p2", 4))).toEqual([
      "once: p2 runs fire 4, after a later one ran on p1",
    ]);
  });

  test("a fire may run twice only if the clocks differ by half of the window", () => {
    const later = 10 + WINDOW_MS;
    expect(check(...run(10, "p1", 4, WINDOW_MS / 2), ...run(later, "p2", 4))).toEqual([]);
    expect(check(...run(10, "p1", 4), ...run(later, "p2", 4))).toHaveLength(1);
    // The clock was set between the call and the run, and the claim is made in between.
    const set = [fire(10, "p1", 4, "called", WINDOW_MS), fire(20, "p1", 4, "began")];
    expect(check(...set, ...run(later, "p2", 4))).toEqual([]);
    expect(check(...run(10, "p1", 4), ...run(later, "p2", 4, WINDOW_MS))).toHaveLength(1);
  });

  test("in the calm phase every fire that is called runs", () => {
    const calm = fireCheckStart(plan) + 1;
    const called = fire(calm, "p1", 4, "called");
    expect(check(called)).toEqual([
      "once: p1 called fire 4 in the calm phase, and no program ran it",
    ]);
    expect(check(called, fire(calm + 1, "p2", 4, "began"))).toEqual([]);
    expect(check(called, fire(calm + 1, "p2", 5, "began"))).toEqual([]);
    expect(check(called, fire(calm + 1, "p2", 3, "began"))).toHaveLength(1);
    expect(check(fire(10, "p1", 4, "called"))).toEqual([]);
  });
});
