// Goal: every checker finds what it is there for, and is silent on what is allowed. Method: small traces by hand, each once
// with and once without the fault; those of renewals and waiters are in sim-checkers-waits.test.ts.
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
  findings,
  findingsOf,
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

test("a clean term is clean", () => {
  expect(findings(...begin, [10, "p1", act()])).toEqual([]);
});

describe("the store's side", () => {
  test("S1: a token that does not rise", () => {
    const next = [kept(2_500, 5_000, "b"), grant(2_501, 1n, "b")];
    expect(findings(...begin, ...next)).toEqual(["S1: r: token 1 granted behind 1"]);
    expect(findings(...begin, kept(2_500, 5_000, "b"), grant(2_501, 2n, "b"))).toEqual([]);
  });

  test("S4: a second holder before the end of the first, and a grant to the dead", () => {
    const early = findings(...begin, kept(10, 5_000, "b"), grant(11, 2n, "b"));
    expect(early).toEqual(["S4: r: token 2 granted while 1 was held"]);
    expect(findings(...begin, grant(2_500, 2n))).toEqual([
      "S4: r: token 2 granted to a session that had expired",
    ]);
  });

  test("S5: the same answer to a repeated request is no second grant, another token is", () => {
    expect(findings(...begin, grant(20, 1n))).toEqual([]);
    const again = { kind: "storeGranted", resource: "r", token: 2n, session: "a" } as const;
    const late: Step = [30, "store", { ...again, attempt: "a.1" }];
    const gaveUp: Step = [10, "p1", { kind: "gaveUp", ...r }];
    expect(findings(...begin, gaveUp, freed(20, "released"), late)).toEqual([
      "S5: r: one attempt was granted 1 and then 2",
    ]);
  });

  test("S5: on a store that knows the newest attempt only, the renewals give a late copy back", () => {
    const redis = { ...plan, store: "redis" };
    const again = { kind: "storeGranted", resource: "r", token: 2n, session: "a" } as const;
    const day = (...then: Step[]): string[] =>
      findingsOf(redis, [
        ...begin,
        [10, "p1", { kind: "gaveUp", ...r }],
        freed(20, "released"),
        [30, "store", { ...again, attempt: "a.1" }],
        ...then,
      ]);
    const renewals = [40, 50, 60, 70].map((at) => kept(at, 5_000));
    const back: Step = [65, "store", { kind: "storeFreed", ...r, token: 2n, how: "withdrawn" }];
    expect(day(...renewals)).toEqual(["S5: r: nobody knows of 2, and no renewal gives it back"]);
    expect(day(...renewals.slice(0, 3), back, ...renewals.slice(3))).toEqual([]);
  });

  test("S5: freed without its holder's wish", () => {
    const [message] = findings(...begin, freed(20, "released"));
    expect(message).toContain("S5: r: token 1 was freed (released)");
    expect(findings(...begin, freed(20, "withdrawn"))).toHaveLength(1);
    expect(findings(...begin, freed(20, "sessionEnded"))).toHaveLength(1);
    expect(findings(...begin, freed(20, "revoked"))).toEqual([]);
    // What was revoked before, and is held again behind a failover, is given back by who was told.
    expect(findings(...begin, freed(20, "revoked"), freed(30, "released"))).toEqual([]);
    expect(findings(...begin, freed(20, "revoked"), freed(30, "sessionEnded"))).toHaveLength(1);
    const gaveUp: Step = [10, "p1", { kind: "gaveUp", ...r }];
    expect(findings(...begin, gaveUp, freed(20, "released"))).toEqual([]);
    expect(findings(kept(1, 2_000), grant(2, 1n), freed(20, "withdrawn"))).toEqual([]);
  });
});

describe("the holder's side", () => {
  test("S3: acts behind the expiry, on what is free, and with a deadline too close to it", () => {
    expect(findings(...begin, [2_100, "p1", act()])[0]).toContain("100.00 ms behind its expiry");
    const late = act({ safeUntilTrue: 1_950 });
    expect(findings(...begin, [10, "p1", late])[0]).toContain("50.00 ms too close");
    expect(findings(...begin, [10, "p1", act({ safeUntilTrue: 1_900 })])).toEqual([]);
    const ended: Step[] = [
      [10, "p1", { kind: "endedSession", session: "a" }],
      freed(20, "sessionEnded"),
    ];
    expect(findings(...begin, ...ended, [30, "p1", act()])[0]).toContain("which is free");
    expect(findings(...begin, freed(20, "revoked"), [30, "p1", act()])).toEqual([]);
    expect(findings([1, "p1", act()])[0]).toContain("which no store granted");
  });

  test("S6: acts behind safeUntil, in doubt, when gone, when told, and behind the release", () => {
    const told = (...before: Step[]): string | undefined =>
      findings(...begin, ...before, [100, "p1", act()])[0];
    expect(findings(...begin, [10, "p1", act({ now: 1 })])[0]).toContain("behind its safeUntil");
    expect(told(renewal("failed", 1, 51))).toContain("in doubt");
    expect(told(renewal("failed", 1, 51), renewal("renewed", 2, 52))).toBeUndefined();
    expect(told(renewal("renewed", 2, 52), renewal("failed", 3, 53))).toContain("in doubt");
    expect(told(renewal("gone", 1, 51))).toContain("the session is gone");
    expect(told([50, "p1", over("expired")])).toContain("is over");
    expect(told([50, "p1", { kind: "gaveUp", ...r }])).toContain("after its release");
    const brave: Step = [100, "p1", act({ actsInDoubt: true })];
    expect(findings(...begin, renewal("failed", 1, 51), brave)).toEqual([]);
  });

  test("S6: a lease that is handed out behind its end", () => {
    const late: Step = [5, "p1", { ...given, now: 2 }];
    expect(findings(kept(1, 2_000), grant(2, 1n), late)[0]).toContain("was given r 1");
  });

  test("S6: a release, or the end of the session, with work in flight; work that begins while draining", () => {
    const began: Step = [10, "p1", { kind: "workBegan", ...r, actsInDoubt: false }];
    const ended: Step = [15, "p1", { kind: "workEnded", ...r }];
    const gaveUp: Step = [20, "p1", { kind: "gaveUp", ...r }];
    const end: Step = [20, "p1", { kind: "endedSession", session: "a" }];
    expect(findings(...begin, began, gaveUp)[0]).toContain("given up with work in flight");
    expect(findings(...begin, began, end)[0]).toContain("by the end of its session");
    expect(findings(...begin, began, ended, gaveUp)).toEqual([]);
    expect(findings(...begin, [7, "p1", { kind: "drained", ...r }], began)[0]).toContain(
      "draining",
    );
    expect(findings(...begin, began, [15, "p1", { kind: "crashed" }], end)).toEqual([]);
  });

  test("S6: who leads on although the reign was lost", () => {
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
    const evening = (at: number): Step => [at, "world", { kind: "evening" }];
    const late = evening(CALM + 1_000);
    expect(findings(until, granted, began, lost, late)[0]).toContain("leads on with 1");
    expect(findings(until, granted, began, lost, ended, late)).toEqual([]);
    // In the middle of a step, which its program was stopped in for as long as the faults lasted.
    expect(findings(until, granted, began, lost, evening(CALM + 900))).toEqual([]);
    // Unless a clock may have gone at half its speed.
    const beyond = { ...plan, isBeyondBounds: true };
    expect(findingsOf(beyond, [until, granted, began, lost, late])).toEqual([]);
    const later = evening(CALM + 2_000);
    expect(findingsOf(beyond, [until, granted, began, lost, later])).toHaveLength(1);
    const lostLate: Step = [CALM + 500, "p1", over("revoked", lead)];
    expect(findings(until, granted, began, lostLate, evening(CALM + 1_400))).toEqual([]);
  });

  test("S5: what is said to be released and is not", () => {
    const said: Step = [20, "p1", { kind: "releasedAs", ...r, result: "released" }];
    expect(findings(...begin, said)[0]).toContain("still held");
    expect(
      findings(...begin, [10, "p1", { kind: "gaveUp", ...r }], freed(15, "released"), said),
    ).toEqual([]);
  });
});

describe("the resource's side", () => {
  test("S2: a guard that admits what is stale, or refuses what is not", () => {
    const wrote = (outcome: "admitted" | "refused", stale: boolean, guarded = true): Step => [
      ...([10, "p1"] as const),
      { kind: "wrote", ...r, guarded, sent: "at once", outcome, stale },
    ];
    expect(findings(wrote("admitted", true))[0]).toContain("admitted 1 behind a higher");
    expect(findings(wrote("refused", false))[0]).toContain("refused 1 for no reason");
    expect(findings(wrote("refused", true))).toEqual([]);
    expect(findings(wrote("admitted", true, false))).toEqual([]);
  });

  test("S2: a lease that is handed out before the guard is advanced that it was to advance", () => {
    const guarded: Step = [5, "p1", { ...given, withGuards: true }];
    const advanced = (at: number, token = 1n): Step => [
      at,
      "p1",
      { kind: "advanced", ...r, token },
    ];
    const day = (...steps: Step[]): string[] =>
      findings(kept(1, 2_000), grant(2, 1n), ...steps, guarded);
    expect(day(advanced(4))).toEqual([]);
    const early = ["S2: p1 was given r 1 before its guard was advanced"];
    expect(day()).toEqual(early);
    expect(day(advanced(6))).toEqual(early);
    expect(day(advanced(4, 0n))).toEqual(early);
    expect(findings(kept(1, 2_000), grant(2, 1n), held)).toEqual([]);
  });
});

describe("liveness", () => {
  test("L1: a resource on which nobody acts in the calm", () => {
    const messages = checkTrace(plan, []).map(({ message }) => message);
    for (const resource of CONTENDED)
      expect(messages.some((message) => message.includes(`acted on ${resource}`))).toBe(true);
  });

  test("L1: a renewal that was sent in the faults and arrives in the calm is the last of them", () => {
    const lock = { resource: "lock/0", token: 1n };
    const until = CALM + 3_800;
    const day = (actsAt: number, ...steps: Step[]): string[] => {
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
      const events = all.map(([at, who, happening]) => ({ at, who, ...happening }));
      const found = checkTrace(plan, events).filter(({ invariant }) => invariant === "L1");
      return found.map(({ message }) => message);
    };
    const late = kept(CALM + 1_800, until);
    const tooLate = until + 1_600;
    expect(day(CALM + 3_600)).toEqual([]);
    expect(day(until + 1_400)).toHaveLength(1);
    expect(day(until + 1_400, late)).toEqual([]);
    expect(day(tooLate, late)).toEqual(["nobody acted on lock/0 within 5300 ms of calm"]);
    // Who renews in the calm has not left, and must act; and other sessions have nothing to do with it.
    expect(day(until + 1_400, late, asked(CALM + 1_900, "renew"))).toHaveLength(1);
    expect(day(until + 1_400, kept(CALM + 1_800, until, "b"))).toHaveLength(1);
  });

  test("L3: a loss or a doubt in the calm", () => {
    const late = CALM + 2 * plan.ttlMs;
    expect(findings([late, "p1", over("expired")])).toHaveLength(1);
    const doubt: Step = [late, "p1", { kind: "failed", what: "check", code: "LEASE_IN_DOUBT" }];
    expect(findings(doubt)).toHaveLength(1);
    expect(findings([late, "p1", over("released")])).toEqual([]);
  });

  test("L4: a planned end that leaves a lease to its ttl", () => {
    const evening = CALM + plan.calmMs;
    const holds: Step[] = [kept(1, evening + 9_000), grant(2, 1n), held];
    const closed: Step = [evening + 1, "p1", { kind: "closed" }];
    expect(findings(...holds, closed)[0]).toContain("left r to its ttl");
    const gaveUp: Step = [evening, "p1", { kind: "gaveUp", ...r }];
    expect(findings(...holds, gaveUp, closed)).toEqual([]);
    // A program that was killed leaves everything; the next one there had nothing to do with it.
    const crashed: Step = [evening - 9, "p1", { kind: "crashed" }];
    expect(findings(...holds, crashed, closed)).toEqual([]);
    const drained: Step = [evening - 9, "p1", { kind: "drained", ...r }];
    expect(findings(...holds, drained, closed)).toHaveLength(1);
    const overrun: Step = [evening - 8, "p1", { kind: "releasedAs", ...r, result: "overrun" }];
    expect(findings(...holds, drained, overrun, closed)).toEqual([]);
    // The session lived on when the work had ended: then it was to be given back.
    const alive = renewal("failed", evening - 7, evening - 6);
    expect(findings(...holds, drained, overrun, alive, closed)).toHaveLength(1);
  });

  test("L4: work that outlasts its drain and then the session leaves its lease, whichever of the two is told", () => {
    const evening = CALM + plan.calmMs;
    const holds: Step[] = [kept(1, evening + 9_000), grant(2, 1n), held];
    const began: Step = [evening - 10, "p1", { kind: "workBegan", ...r, actsInDoubt: false }];
    const drained: Step = [evening - 9, "p1", { kind: "drained", ...r, drainMs: 1 }];
    const limit: Step = [evening - 8, "p1", over("released")];
    const lost: Step = [evening - 7, "p1", { kind: "releasedAs", ...r, result: "lost" }];
    const ended: Step = [evening - 6, "p1", { kind: "workEnded", ...r }];
    const closed: Step = [evening + 1, "p1", { kind: "closed" }];
    const first: Step[] = [...holds, began, drained, limit];
    expect(findings(...first, lost, ended, closed)).toEqual([]);
    // The session was not lost, or only behind the work: then there was somebody to give it back.
    const alive = renewal("failed", evening - 5, evening - 4);
    expect(findings(...first, lost, ended, alive, closed)).toHaveLength(1);
    const lostLater: Step = [evening - 5, "p1", { kind: "releasedAs", ...r, result: "lost" }];
    expect(findings(...first, ended, lostLater, closed)).toHaveLength(1);
    expect(findings(...first, ended, closed)).toHaveLength(1);
  });

  test("more requests in a second than there is reason for, and errors that nobody foresaw", () => {
    const many = Array.from({ length: 100 }, () => asked(10, "grant"));
    expect(findings(...many)[0]).toContain("requests: p1 asked");
    expect(findings([10, "p1", { kind: "failed", what: "workload", code: "TypeError" }])).toEqual([
      "errors: p1: TypeError",
    ]);
  });
});

describe("what a holder is told", () => {
  const renewed = (at: number, sentAt: number): Step => renewal("renewed", sentAt, at);

  test("S6: acts after a renewal that was sent behind a revocation", () => {
    const gone: Step[] = [...begin, renewed(10, 9), freed(20, "revoked")];
    // However many are answered that were under way.
    const underWay = [renewed(21, 17), renewed(22, 18), renewed(23, 19)];
    expect(findings(...gone, ...underWay, [30, "p1", act()])).toEqual([]);
    expect(findings(...gone, renewed(25, 21), [30, "p1", act()])[0]).toContain("it was revoked");
    // Unless a failover has undone it.
    const restored: Step = [22, "store", { kind: "storeRestored", ...r }];
    expect(findings(...gone, restored, renewed(25, 23), [30, "p1", act()])).toEqual([]);
    // A late answer to an older renewal takes nothing back.
    expect(findings(...gone, renewed(25, 21), renewed(26, 8), [30, "p1", act()])).toHaveLength(1);
  });

  test("S6: a drain that goes on when its time is over", () => {
    const at = CALM + 1.5 * plan.ttlMs + 1;
    const drain: Step = [at, "p1", { kind: "drained", ...r, drainMs: 500 }];
    const ended = (afterMs: number): Step => [at + afterMs, "p1", over("released")];
    expect(findings(...begin, drain, ended(600))).toEqual([]);
    expect(findings(...begin, drain, ended(2_000))[0]).toContain("long after its drain");
    const patient: Step = [at, "p1", { kind: "drained", ...r }];
    expect(findings(...begin, patient, ended(2_000))).toEqual([]);
  });
});

describe("scheduled runs", () => {
  type FireStep = Extract<TraceEventData, { kind: "fire" }>["step"];
  const fire = (at: number, who: string, number: number, step: FireStep, offMs = 0): Step => [
    ...([at, who] as const),
    { kind: "fire", fire: number, step, wall: at + offMs },
  ];
  const run = (at: number, who: string, number: number, offMs = 0): Step[] => [
    fire(at, who, number, "called", offMs),
    fire(at + 1, who, number, "began", offMs),
  ];

  test("one fire runs once, and fires in order", () => {
    expect(findings(...run(10, "p1", 4), ...run(100, "p2", 5))).toEqual([]);
    expect(findings(...run(10, "p1", 4), ...run(100, "p2", 4))).toEqual([
      "once: p2 runs fire 4 once more than p1",
    ]);
    expect(findings(...run(10, "p1", 5), ...run(100, "p2", 4))).toEqual([
      "once: p2 runs fire 4 behind a later one of p1",
    ]);
  });

  test("clocks that differ by half of the window may run it again, others not, however late", () => {
    const later = 10 + WINDOW_MS;
    expect(findings(...run(10, "p1", 4, WINDOW_MS / 2), ...run(later, "p2", 4))).toEqual([]);
    expect(findings(...run(10, "p1", 4), ...run(later, "p2", 4))).toHaveLength(1);
    // Set between the call and the run: the claim lies in between.
    const set = [fire(10, "p1", 4, "called", WINDOW_MS), fire(20, "p1", 4, "began")];
    expect(findings(...set, ...run(later, "p2", 4))).toEqual([]);
    expect(findings(...run(10, "p1", 4), ...run(later, "p2", 4, WINDOW_MS))).toHaveLength(1);
  });

  test("in the calm a fire that is called is run", () => {
    const calm = fireCheckStart(plan) + 1;
    const called = fire(calm, "p1", 4, "called");
    expect(findings(called)).toEqual(["once: p1 called fire 4 in the calm, and nobody ran it"]);
    expect(findings(called, fire(calm + 1, "p2", 4, "began"))).toEqual([]);
    expect(findings(called, fire(calm + 1, "p2", 5, "began"))).toEqual([]);
    expect(findings(called, fire(calm + 1, "p2", 3, "began"))).toHaveLength(1);
    expect(findings(fire(10, "p1", 4, "called"))).toEqual([]);
  });
});
