// Goal: the checkers of renewals and waiters report the violations they exist for and accept
// correct traces. Method: small hand-written traces, each with and without the violation.
import { describe, expect, test } from "vitest";
import { renewEveryMs } from "../faults/plan.ts";
import type { TraceEventData } from "../world/trace.ts";
import {
  asked,
  CALM,
  check,
  checkWithPlan,
  freed,
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

describe("waiters", () => {
  /** On a store without handoff. */
  const check = (...steps: readonly Step[]): string[] =>
    checkWithPlan({ ...plan, store: "etcd" }, steps);
  /** The session's request for the grant with this token. */
  const seek = (at: number, who: string, session: string, token: bigint): Step => [
    at,
    who,
    {
      kind: "asked",
      what: "grant",
      session,
      now: at,
      resource: "r",
      attempt: `${session}.${token}`,
    },
  ];
  const queue = (at: number, who: string, session: string, token: bigint): Step => [
    at,
    who,
    { kind: "queued", resource: "r", attempt: `${session}.${token}`, sentAtTrue: at - 9 },
  ];
  const [from, free] = [CALM + 100, CALM + 500];
  const gaveUp: Step = [free - 5, "p1", { kind: "gaveUp", ...r }];
  /** Session a holds r. Session b waits for it, then c. Then a releases it. */
  const waiting: Step[] = [
    kept(from, CALM + 2_000),
    kept(from, CALM + 2_000, "b"),
    kept(from, CALM + 2_000, "c"),
    grant(from, 1n),
    seek(from + 10, "p2", "b", 2n),
    queue(from + 20, "p2", "b", 2n),
    seek(from + 30, "p3", "c", 2n),
    queue(from + 40, "p3", "c", 2n),
    gaveUp,
    freed(free, "released"),
  ];

  test("FIFO: a later waiter is not granted during the head start of an earlier one", () => {
    expect(check(...waiting, grant(free + 9, 2n, "b"))).toEqual([]);
    const late = grant(free + 9, 2n, "c");
    expect(check(...waiting, late)).toEqual([
      "FIFO: r: 2 went to p3, although p2 had waited longer",
    ]);
    expect(check(...waiting, grant(free + 251, 2n, "c")).join()).not.toContain("FIFO");
    // A waiter that crashed no longer waits, and if two requests crossed, either may be first.
    const gone: Step = [free, "p2", { kind: "crashed" }];
    expect(check(...waiting, gone, late)).toEqual([]);
    const crossed = waiting.filter(([, who, { kind }]) => who !== "p2" || kind !== "queued");
    const later = queue(from + 35, "p2", "b", 2n);
    expect(check(...crossed, later, late)).toEqual([]);
  });

  test("FIFO: a skipped waiter has waited only since its next request", () => {
    const skipped = (at: number, session: string, isRevocation = false): Step => [
      at,
      "store",
      { kind: "storePassedOver", resource: "r", attempt: `${session}.2`, isRevocation },
    ];
    // Session c takes r and releases it. Session d waits for it, and b may wait again.
    const checkOrder = (...again: Step[]): string[] =>
      check(
        ...waiting,
        skipped(free + 251, "b"),
        grant(free + 260, 2n, "c"),
        kept(from, CALM + 2_000, "d"),
        seek(free + 265, "p4", "d", 3n),
        ...again,
        [free + 290, "p3", { kind: "gaveUp", resource: "r", token: 2n }],
        [free + 300, "store", { kind: "storeFreed", resource: "r", token: 2n, how: "released" }],
        grant(free + 309, 3n, "d"),
      ).filter((message) => message.startsWith("FIFO"));
    expect(checkOrder()).toEqual([]);
    expect(checkOrder(queue(free + 264, "p2", "b", 2n))).toHaveLength(1);
    // The answer to a request from before the skip says nothing about the current position.
    expect(checkOrder(queue(free + 259, "p2", "b", 2n))).toEqual([]);
    expect(checkOrder(queue(free + 275, "p2", "b", 2n))).toEqual([]);
    // Each waiter has its head start from when it is first.
    const soon = "FIFO: r: p2 was skipped before its head start was over";
    expect(check(...waiting, skipped(free + 200, "b"))).toContain(soon);
    expect(check(...waiting, skipped(free + 200, "b", true))).not.toContain(soon);
    const second = check(...waiting, skipped(free + 251, "b"), skipped(free + 400, "c"));
    expect(second.join()).toContain("p3 was skipped");
    const both = check(...waiting, skipped(free + 251, "b"), skipped(free + 502, "c"));
    expect(both.join()).not.toContain("was skipped");
  });

  test("FIFO: a session that other requests extended ends when the store reports its expiry", () => {
    const expiring = waiting.filter(([, , { kind }]) => kind !== "storeFreed" && kind !== "gaveUp");
    const dead = kept(from + 50, CALM + 700);
    const ended: Step = [
      CALM + 1_000,
      "store",
      { kind: "storeExpired", session: "a", until: CALM + 990 },
    ];
    const late = grant(CALM + 1_009, 2n, "c");
    const fifo = (...steps: Step[]): string[] =>
      check(...expiring, dead, ...steps).filter((message) => message.startsWith("FIFO"));
    expect(fifo(ended, late)).toHaveLength(1);
    expect(fifo(late)).toEqual([]);
  });

  test("FIFO: the head start counts from when the store read its clock", () => {
    const upTo = waiting.slice(0, -1);
    const stopped = (readAt: number): Step => freed(free, "released", readAt);
    const after = grant(free + 9, 2n, "c");
    expect(check(...upTo, stopped(free - 230), after)).toEqual([]);
    expect(check(...upTo, stopped(free - 220), after)).toHaveLength(1);
    // The limit for a prompt grant counts from when the release was visible.
    const late = grant(free + 40, 2n, "b");
    expect(check(...upTo, stopped(free - 230), grant(free + 9, 2n, "b"))).toEqual([]);
    expect(check(...upTo, stopped(free - 230), late)[0]).toContain("16.00 ms too long");
  });

  test("L2: a waiter whose notification got lost has the stated polling interval more", () => {
    const lost = (at: number, who: string): Step => [
      at,
      who,
      { kind: "reportLost", pollsWithinMs: 200 },
    ];
    const [soon, late] = [grant(free + 220, 2n, "b"), grant(free + 230, 2n, "b")];
    expect(check(...waiting, lost(free, "p2"), soon)).toEqual([]);
    expect(check(...waiting, lost(free, "p2"), late)).toHaveLength(1);
    expect(check(...waiting, lost(free, "p3"), soon)).toHaveLength(1);
    expect(check(...waiting, lost(free - 1, "p2"), soon)).toHaveLength(1);
    expect(check(...waiting, lost(free + 1, "p2"), soon)).toHaveLength(1);
    // If two requests crossed, either may be first at the store.
    const crossed = waiting.filter(([, who, { kind }]) => who !== "p2" || kind !== "queued");
    const places = [queue(from + 35, "p2", "b", 2n), lost(free, "p3")];
    expect(check(...crossed, ...places, soon)).toEqual([]);
    // The head start of a stuck waiter runs at the same time, not afterwards.
    const stuck = [kept(1, CALM + 2_000, "d"), seek(2, "p4", "d", 2n)];
    expect(check(...stuck, ...waiting, lost(free, "p2"), grant(free + 300, 2n, "b"))).toHaveLength(
      1,
    );
  });

  test("L2: in the calm phase a grant follows a release within two round trips and a head start", () => {
    const late = grant(free + 40, 2n, "b");
    expect(check(...waiting, late)).toEqual([
      "L2: p2 waited for r, which was free, 16.00 ms too long",
    ]);
    const shutdown: Step = [free + 40, "world", { kind: "evening" }];
    expect(check(...waiting, shutdown)).toHaveLength(1);
    // A waiter from before the calm phase may be first and stuck.
    const stuck = [kept(1, CALM + 2_000, "d"), seek(2, "p4", "d", 2n)];
    expect(check(...stuck, ...waiting, late)).toEqual([]);
    expect(check(...stuck, ...waiting, grant(free + 300, 2n, "b"))).toHaveLength(1);
  });

  test("L2: an expired waiter may be first in the queue for as long as the store's lag", () => {
    const lag = { sentAt: 1, sentAtTrue: 1, ttlMs: plan.ttlMs, expiryLagMs: 500 };
    const opened: Step = [from, "p1", { kind: "opened", session: "a", ...lag }];
    const dead = (until: number): Step[] => [kept(1, until, "d"), seek(2, "p4", "d", 2n)];
    const late = grant(free + 40, 2n, "b");
    expect(check(opened, ...dead(free - 499), ...waiting, late)).toEqual([]);
    expect(check(opened, ...dead(free - 501), ...waiting, late)).toHaveLength(1);
    expect(check(...dead(free - 1), ...waiting, late)).toHaveLength(1);
  });

  test("L2: the limit counts from when the waiter's notification connection works", () => {
    const listens = (at: number, who: string, since: number): Step => [
      at,
      who,
      { kind: "listens", from: since },
    ];
    const checkStore = (...steps: readonly Step[]): string[] =>
      checkWithPlan({ ...plan, store: "redis" }, [...waiting, ...steps]);
    const never = Number.POSITIVE_INFINITY;
    const [down, up] = [listens(from, "p2", never), listens(from, "p3", from)];
    const late = grant(free + 40, 2n, "b");
    expect(checkStore(late)).toEqual(["L2: p2 waited for r, which was free, 16.00 ms too long"]);
    expect(checkStore(listens(from, "p2", from), up, late)).toHaveLength(1);
    // The other waiter may and must overtake it after its head start.
    expect(checkStore(down, up, grant(free + 285, 2n, "c"))).toEqual([]);
    expect(checkStore(down, up, grant(free + 295, 2n, "c"))).toHaveLength(1);
    expect(checkStore(down, listens(from, "p3", never), grant(free + 900, 2n, "c"))).toEqual([]);
    // Once the connection works: a message and two round trips.
    const back = listens(free + 50, "p2", free + 100);
    expect(checkStore(down, up, back, grant(free + 130, 2n, "b"))).toEqual([]);
    expect(checkStore(down, up, back, grant(free + 131, 2n, "b"))).toHaveLength(1);
  });

  test("L2: a granted waiter may be in the queue again while a request of it is under way", () => {
    const late = grant(free + 40, 2n, "b");
    const asks = [seek(from - 20, "p1", "a", 1n), seek(from - 10, "p1", "a", 1n)];
    expect(check(...asks, ...waiting, late)).toEqual([]);
    expect(check(...asks.slice(1), ...waiting, late)).toHaveLength(1);
    const answered = [asks[0] as Step, queue(from - 15, "p1", "a", 1n), asks[1] as Step];
    expect(check(...answered, ...waiting, late)).toHaveLength(1);
  });

  test("L2: where only the first three waiters are notified, later ones may be late", () => {
    const stuck = ["d", "e"].flatMap((name) => [
      kept(1, CALM + 2_000, name),
      seek(2, `p-${name}`, name, 2n),
    ]);
    const down: Step = [from, "p2", { kind: "listens", from: Number.POSITIVE_INFINITY }];
    const checkStore = (store: "etcd" | "redis", ...steps: readonly Step[]): string[] =>
      checkWithPlan({ ...plan, store }, [...waiting, ...steps, down, grant(free + 900, 2n, "c")]);
    expect(checkStore("redis", ...stuck)).toEqual([]);
    expect(checkStore("redis", ...stuck.slice(2))).toHaveLength(1);
    expect(checkStore("etcd", ...stuck)).toHaveLength(1);
  });

  test("L1: a grant after an expiry may take the store's lag longer", () => {
    const until = CALM + 900;
    const expiring = waiting.filter(([, , { kind }]) => kind !== "storeFreed" && kind !== "gaveUp");
    const dead = kept(from + 50, until);
    const inTime = until + plan.clockErrorMs + 20;
    expect(check(...expiring, dead, grant(inTime, 2n, "b"))).toEqual([]);
    expect(check(...expiring, dead, grant(inTime + 40, 2n, "b"))[0]).toContain("L1: p2 waited");
  });

  test("FIFO: a grant that ended before its holder learned of it does not end the wait", () => {
    const lock = { resource: "r", token: 2n } as const;
    // Session b is granted r, which is revoked at once. b retries, and has waited longer than c.
    const revoked: Step[] = [
      ...waiting,
      grant(free + 5, 2n, "b"),
      [free + 10, "store", { kind: "storeFreed", ...lock, how: "revoked" }],
    ];
    const granted = (session: string): Step => [
      free + 20,
      "store",
      { kind: "storeGranted", resource: "r", token: 3n, session, attempt: `${session}.2` },
    ];
    expect(check(...revoked, seek(free + 15, "p2", "b", 2n), granted("b"))).toEqual([]);
    // Another attempt of the same session is after c in the queue.
    const other: Step = [
      free + 20,
      "store",
      { kind: "storeGranted", resource: "r", token: 3n, session: "b", attempt: "b.3" },
    ];
    const found = check(...revoked, seek(free + 15, "p2", "b", 3n), other);
    expect(found).toContain("FIFO: r: 3 went to p2, although p3 had waited longer");
  });

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
