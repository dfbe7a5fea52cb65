// Goal: the checkers of renewals and of waiters find what they are there for, and are silent on what is allowed. Method: small
// traces by hand, each once with and once without the fault.
import { describe, expect, test } from "vitest";
import { renewEveryMs } from "../faults/plan.ts";
import type { TraceEventData } from "../world/trace.ts";
import {
  asked,
  CALM,
  findings,
  findingsOf,
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

describe("L3: what loses a lease", () => {
  const sent = { sentAt: 1, sentAtTrue: 1, ttlMs: plan.ttlMs, expiryLagMs: 0 };
  const opened: Step = [2, "p1", { kind: "opened", session: "a", ...sent }];
  /** Of a session that was opened at 1. */
  const safeUntil = 1 + plan.ttlMs - plan.clockErrorMs - plan.roundTripMs;
  type Over = Extract<TraceEventData, { kind: "over" }>;
  const lost = (at: number, more: Partial<Over> = {}): Step => [
    ...([at, "p1"] as const),
    { kind: "over", ...r, reason: "expired", now: at, steadySince: 0, jumpedAt: NEVER, ...more },
  ];
  const day = (...steps: Step[]): string[] =>
    findings(kept(1, 9_000), opened, grant(2, 1n), held, ...steps);
  const failed = (...sentAt: number[]): Step[] =>
    sentAt.flatMap((at) => [asked(at, "renew"), renewal("failed", at, at + plan.roundTripMs)]);

  test("two renewals that failed, by its end; one does not, nor does any before its end", () => {
    expect(day(...failed(670, 1_340), lost(safeUntil))).toEqual([]);
    expect(day(...failed(670), lost(safeUntil))).toEqual([
      "L3: p1 lost r when 1 of its renewals were lost",
    ]);
    expect(day(...failed(670, 1_340), lost(1_500))[0]).toContain("before the end of its newest");
    expect(day(...failed(670), lost(770))[0]).toContain("before the end of its newest");
    expect(day(...failed(670, 1_340), lost(1_500, { reason: "revoked" }))).toEqual([]);
  });

  test("one that was sent too late to be answered does not count", () => {
    expect(day(...failed(670, safeUntil - plan.roundTripMs + 1), lost(safeUntil))).toHaveLength(1);
    expect(day(...failed(670, safeUntil - plan.roundTripMs), lost(safeUntil))).toEqual([]);
  });

  test("a confirmed one counts from when it was sent; one that took too long may count or not", () => {
    const until = safeUntil + 669;
    const confirmed = [asked(670, "renew"), renewal("renewed", 670, 720)];
    expect(day(...confirmed, ...failed(1_340, 2_010), lost(until))).toEqual([]);
    expect(day(...confirmed, ...failed(1_340, 2_010), lost(safeUntil))).toHaveLength(1);
    expect(day(...confirmed, ...failed(1_340), lost(until))).toHaveLength(1);
    const late = [asked(670, "renew"), renewal("renewed", 670, 790)];
    expect(day(...late, ...failed(1_340), lost(safeUntil))).toEqual([]);
    expect(day(...late, ...failed(1_340, 2_010), lost(until))).toEqual([]);
  });

  test("a session that is gone, a clock that jumped, a program that was stopped", () => {
    expect(day(renewal("gone", 670, 720), lost(720))).toEqual([]);
    expect(day([720, "p1", { kind: "toldGone", session: "a" }], lost(720))).toEqual([]);
    expect(day(lost(720, { jumpedAt: 710 }))).toEqual([]);
    expect(day(lost(720, { jumpedAt: 0 }))).toHaveLength(1);
    expect(day(...failed(670), lost(safeUntil, { steadySince: 770 }))).toEqual([]);
    // A stop is no reason to end before the time is over.
    expect(day(...failed(670), lost(820, { steadySince: 770 }))).toHaveLength(1);
  });
});

describe("who waits", () => {
  /** The attempt of the grant with this token. */
  const seek = (at: number, who: string, session: string, token: bigint): Step => [
    ...([at, who] as const),
    {
      ...({ kind: "asked", what: "grant", session, now: at, resource: "r" } as const),
      attempt: `${session}.${token}`,
    },
  ];
  const queue = (at: number, who: string, session: string, token: bigint): Step => [
    ...([at, who] as const),
    { kind: "queued", resource: "r", attempt: `${session}.${token}`, sentAtTrue: at - 9 },
  ];
  const [from, free] = [CALM + 100, CALM + 500];
  const gaveUp: Step = [free - 5, "p1", { kind: "gaveUp", ...r }];
  /** Session a holds r; b waits for it, and c after b; then a gives it back. */
  const waiting: Step[] = [
    ...[kept(from, CALM + 2_000), kept(from, CALM + 2_000, "b"), kept(from, CALM + 2_000, "c")],
    grant(from, 1n),
    ...[seek(from + 10, "p2", "b", 2n), queue(from + 20, "p2", "b", 2n)],
    ...[seek(from + 30, "p3", "c", 2n), queue(from + 40, "p3", "c", 2n)],
    ...[gaveUp, freed(free, "released")],
  ];

  test("FIFO: who came later is not served first while the first has its head start", () => {
    expect(findings(...waiting, grant(free + 9, 2n, "b"))).toEqual([]);
    const late = grant(free + 9, 2n, "c");
    expect(findings(...waiting, late)).toEqual([
      "FIFO: r: 2 went to p3, though p2 had waited longer",
    ]);
    expect(findings(...waiting, grant(free + 251, 2n, "c")).join()).not.toContain("FIFO");
    // One who has gone waits no more, and of two whose requests crossed nobody knows who was first.
    const gone: Step = [free, "p2", { kind: "crashed" }];
    expect(findings(...waiting, gone, late)).toEqual([]);
    const crossed = waiting.filter(([, who, { kind }]) => who !== "p2" || kind !== "queued");
    const later = queue(from + 35, "p2", "b", 2n);
    expect(findings(...crossed, later, late)).toEqual([]);
  });

  test("FIFO: on a store that takes the place of one that is stuck, it has waited since it asked again", () => {
    const passed = (at: number, session: string, isRevocation = false): Step => [
      ...([at, "store"] as const),
      { kind: "storePassedOver", resource: "r", attempt: `${session}.2`, isRevocation },
    ];
    // Session c takes its turn, and gives it back; d had come behind it, and b comes again or has not yet.
    const order = (...again: Step[]): string[] =>
      findings(
        ...waiting,
        ...[passed(free + 251, "b"), grant(free + 260, 2n, "c")],
        ...[kept(from, CALM + 2_000, "d"), seek(free + 265, "p4", "d", 3n)],
        ...again,
        [free + 290, "p3", { kind: "gaveUp", resource: "r", token: 2n }],
        [free + 300, "store", { kind: "storeFreed", resource: "r", token: 2n, how: "released" }],
        grant(free + 309, 3n, "d"),
      ).filter((message) => message.startsWith("FIFO"));
    expect(order()).toEqual([]);
    expect(order(queue(free + 264, "p2", "b", 2n))).toHaveLength(1);
    // An answer from before says nothing of the place that it has now.
    expect(order(queue(free + 259, "p2", "b", 2n))).toEqual([]);
    expect(order(queue(free + 275, "p2", "b", 2n))).toEqual([]);
    // Each has its head start, from when it is the first.
    const soon = "FIFO: r: p2 lost its place before its head start was over";
    expect(findings(...waiting, passed(free + 200, "b"))).toContain(soon);
    expect(findings(...waiting, passed(free + 200, "b", true))).not.toContain(soon);
    const second = findings(...waiting, passed(free + 251, "b"), passed(free + 400, "c"));
    expect(second.join()).toContain("p3 lost its place");
    const both = findings(...waiting, passed(free + 251, "b"), passed(free + 502, "c"));
    expect(both.join()).not.toContain("lost its place");
  });

  test("FIFO: a session that the store heard of by other requests ends when it says so", () => {
    const expiring = waiting.filter(([, , { kind }]) => kind !== "storeFreed" && kind !== "gaveUp");
    const dead = kept(from + 50, CALM + 700);
    const ended: Step = [
      CALM + 1_000,
      "store",
      { kind: "storeExpired", session: "a", until: CALM + 990 },
    ];
    const late = grant(CALM + 1_009, 2n, "c");
    const fifo = (...steps: Step[]): string[] =>
      findings(...expiring, dead, ...steps).filter((message) => message.startsWith("FIFO"));
    expect(fifo(ended, late)).toHaveLength(1);
    expect(fifo(late)).toEqual([]);
  });

  test("FIFO: the head start counts from the store's reading of its clock, also where others saw it later only", () => {
    const upTo = waiting.slice(0, -1);
    const stopped = (readAt: number): Step => freed(free, "released", readAt);
    const after = grant(free + 9, 2n, "c");
    expect(findings(...upTo, stopped(free - 230), after)).toEqual([]);
    expect(findings(...upTo, stopped(free - 220), after)).toHaveLength(1);
    // How soon somebody has it counts from when it could be seen.
    const late = grant(free + 40, 2n, "b");
    expect(findings(...upTo, stopped(free - 230), grant(free + 9, 2n, "b"))).toEqual([]);
    expect(findings(...upTo, stopped(free - 230), late)[0]).toContain("16.00 ms too long");
  });

  test("L2: whose store was not told looks by itself, as soon as it says; that of another is no excuse", () => {
    const lost = (at: number, who: string): Step => [
      ...([at, who] as const),
      { kind: "reportLost", pollsWithinMs: 200 },
    ];
    const [soon, late] = [grant(free + 220, 2n, "b"), grant(free + 230, 2n, "b")];
    expect(findings(...waiting, lost(free, "p2"), soon)).toEqual([]);
    expect(findings(...waiting, lost(free, "p2"), late)).toHaveLength(1);
    expect(findings(...waiting, lost(free, "p3"), soon)).toHaveLength(1);
    expect(findings(...waiting, lost(free - 1, "p2"), soon)).toHaveLength(1);
    expect(findings(...waiting, lost(free + 1, "p2"), soon)).toHaveLength(1);
    // Of two whose requests crossed either may be first at the store.
    const crossed = waiting.filter(([, who, { kind }]) => who !== "p2" || kind !== "queued");
    const places = [queue(from + 35, "p2", "b", 2n), lost(free, "p3")];
    expect(findings(...crossed, ...places, soon)).toEqual([]);
    // A head start runs meanwhile, not afterwards.
    const stuck = [kept(1, CALM + 2_000, "d"), seek(2, "p4", "d", 2n)];
    expect(
      findings(...stuck, ...waiting, lost(free, "p2"), grant(free + 300, 2n, "b")),
    ).toHaveLength(1);
  });

  test("L2: in the calm a release is answered by a grant within two round trips, or a head start more", () => {
    const late = grant(free + 40, 2n, "b");
    expect(findings(...waiting, late)).toEqual([
      "L2: p2 waited for r, which was free, 16.00 ms too long",
    ]);
    const evening: Step = [free + 40, "world", { kind: "evening" }];
    expect(findings(...waiting, evening)).toHaveLength(1);
    // Somebody of before the calm may be first, and stuck.
    const stuck = [kept(1, CALM + 2_000, "d"), seek(2, "p4", "d", 2n)];
    expect(findings(...stuck, ...waiting, late)).toEqual([]);
    expect(findings(...stuck, ...waiting, grant(free + 300, 2n, "b"))).toHaveLength(1);
  });

  test("L2: one who has run out may be first for as long as the store's lag, and stuck", () => {
    const lag = { sentAt: 1, sentAtTrue: 1, ttlMs: plan.ttlMs, expiryLagMs: 500 };
    const opened: Step = [from, "p1", { kind: "opened", session: "a", ...lag }];
    const dead = (until: number): Step[] => [kept(1, until, "d"), seek(2, "p4", "d", 2n)];
    const late = grant(free + 40, 2n, "b");
    expect(findings(opened, ...dead(free - 499), ...waiting, late)).toEqual([]);
    expect(findings(opened, ...dead(free - 501), ...waiting, late)).toHaveLength(1);
    expect(findings(...dead(free - 1), ...waiting, late)).toHaveLength(1);
  });

  test("L2: who listens by itself is woken once its connection is in order, and keeps others waiting until then", () => {
    const listens = (at: number, who: string, since: number): Step => [
      ...([at, who] as const),
      { kind: "listens", from: since },
    ];
    const judged = (...steps: readonly Step[]): string[] =>
      findingsOf({ ...plan, store: "redis" }, [...waiting, ...steps]);
    const never = Number.POSITIVE_INFINITY;
    const [deaf, fine] = [listens(from, "p2", never), listens(from, "p3", from)];
    const late = grant(free + 40, 2n, "b");
    expect(judged(late)).toEqual(["L2: p2 waited for r, which was free, 16.00 ms too long"]);
    expect(judged(listens(from, "p2", from), fine, late)).toHaveLength(1);
    // The other may overtake it behind its head start, and must.
    expect(judged(deaf, fine, grant(free + 285, 2n, "c"))).toEqual([]);
    expect(judged(deaf, fine, grant(free + 295, 2n, "c"))).toHaveLength(1);
    expect(judged(deaf, listens(from, "p3", never), grant(free + 900, 2n, "c"))).toEqual([]);
    // From when it is in order, a message and two round trips.
    const back = listens(free + 50, "p2", free + 100);
    expect(judged(deaf, fine, back, grant(free + 130, 2n, "b"))).toEqual([]);
    expect(judged(deaf, fine, back, grant(free + 131, 2n, "b"))).toHaveLength(1);
  });

  test("L2: one that was granted may be first again, and stuck, where a request of it is still under way", () => {
    const late = grant(free + 40, 2n, "b");
    const asks = [seek(from - 20, "p1", "a", 1n), seek(from - 10, "p1", "a", 1n)];
    expect(findings(...asks, ...waiting, late)).toEqual([]);
    expect(findings(...asks.slice(1), ...waiting, late)).toHaveLength(1);
    const answered = [asks[0] as Step, queue(from - 15, "p1", "a", 1n), asks[1] as Step];
    expect(findings(...answered, ...waiting, late)).toHaveLength(1);
  });

  test("L2: where the first three are told, who is behind them need not know", () => {
    const stuck = ["d", "e"].flatMap((name) => [
      ...[kept(1, CALM + 2_000, name), seek(2, `p-${name}`, name, 2n)],
    ]);
    const deaf: Step = [from, "p2", { kind: "listens", from: Number.POSITIVE_INFINITY }];
    const judged = (store: "etcd" | "redis", ...steps: readonly Step[]): string[] =>
      findingsOf({ ...plan, store }, [...waiting, ...steps, deaf, grant(free + 900, 2n, "c")]);
    expect(judged("redis", ...stuck)).toEqual([]);
    expect(judged("redis", ...stuck.slice(2))).toHaveLength(1);
    expect(judged("etcd", ...stuck)).toHaveLength(1);
  });

  test("L1: behind an expiry it may take the store's lag longer", () => {
    const until = CALM + 900;
    const expiring = waiting.filter(([, , { kind }]) => kind !== "storeFreed" && kind !== "gaveUp");
    const dead = kept(from + 50, until);
    const inTime = until + plan.clockErrorMs + 20;
    expect(findings(...expiring, dead, grant(inTime, 2n, "b"))).toEqual([]);
    expect(findings(...expiring, dead, grant(inTime + 40, 2n, "b"))[0]).toContain("L1: p2 waited");
  });

  test("L1: where two look out for an expiry, who came behind two hears of it with its next renewal", () => {
    const until = CALM + 900;
    const expiring = waiting.filter(([, , { kind }]) => kind !== "storeFreed" && kind !== "gaveUp");
    const dead = kept(from + 50, until);
    // Both were there when b came, and have died since.
    const gone = (name: string): Step[] => [
      kept(from, until - 100, name),
      seek(from + 1, `p-${name}`, name, 2n),
    ];
    const late = grant(until + plan.clockErrorMs + 0.9 * renewEveryMs(plan), 2n, "b");
    const judged = (store: string, ...steps: Step[]): string[] =>
      findingsOf({ ...plan, store }, [...expiring, dead, ...steps, late]);
    const ofB = (found: string[]): string[] => found.filter((text) => text.includes("p2 waited"));
    expect(ofB(judged("postgres", ...gone("d"), ...gone("e")))).toEqual([]);
    expect(ofB(judged("postgres", ...gone("d")))).toHaveLength(1);
    expect(ofB(judged("memory", ...gone("d"), ...gone("e")))).toHaveLength(1);
  });

  test("FIFO: what was granted, and ended before anybody heard of it, is asked for on in the same wait", () => {
    const lock = { resource: "r", token: 2n } as const;
    // Session b is granted it, and somebody revokes that; b asks on, and has waited longer than c.
    const revoked: Step[] = [
      ...[...waiting, grant(free + 5, 2n, "b")],
      [free + 10, "store", { kind: "storeFreed", ...lock, how: "revoked" }],
    ];
    const granted = (session: string): Step => [
      ...([free + 20, "store"] as const),
      { kind: "storeGranted", resource: "r", token: 3n, session, attempt: `${session}.2` },
    ];
    expect(findings(...revoked, seek(free + 15, "p2", "b", 2n), granted("b"))).toEqual([]);
    // Another wait of the same session begins behind c.
    const other: Step = [
      ...([free + 20, "store"] as const),
      { kind: "storeGranted", resource: "r", token: 3n, session: "b", attempt: "b.3" },
    ];
    const found = findings(...revoked, seek(free + 15, "p2", "b", 3n), other);
    expect(found).toContain("FIFO: r: 3 went to p2, though p3 had waited longer");
  });

  test("L1: a session that is kept for longer than its ttl", () => {
    const renew = asked(5, "renew");
    expect(findings(kept(10, 10 + plan.ttlMs))).toEqual([]);
    expect(findings(renew, kept(10, 10 + plan.ttlMs))).toEqual([]);
    expect(findings(renew, kept(10, 10 + 1.1 * plan.ttlMs))[0]).toContain("L1: the store keeps");
  });

  test("a renewal before it is due, where none has failed", () => {
    const sent = { sentAt: 1, sentAtTrue: 1, ttlMs: plan.ttlMs, expiryLagMs: 0 };
    const opened: Step = [2, "p1", { kind: "opened", session: "a", ...sent }];
    const every = renewEveryMs(plan);
    expect(findings(opened, asked(1 + every, "renew"))).toEqual([]);
    expect(findings(opened, asked(every - 1, "renew"))[0]).toContain("before it was due");
    const failed = [asked(1 + every, "renew"), renewal("failed", 1 + every, 20 + every)];
    expect(findings(opened, ...failed, asked(40 + every, "renew"))).toEqual([]);
    // Two were under way: the first of them confirms, the second fails, and that is a reason to ask again soon.
    const at = 40 + every;
    const two = [...failed, asked(at, "renew"), asked(at + 40, "renew")];
    const confirmed = [...two, renewal("renewed", at, at + 60)];
    const again = asked(at + 100, "renew");
    expect(findings(opened, ...confirmed, renewal("failed", at + 40, at + 70), again)).toEqual([]);
    expect(findings(opened, ...confirmed, again)).toHaveLength(1);
    // So is one whose answer came behind its limit, and only then.
    const answer = (afterMs: number): Step => renewal("renewed", at + 40, at + 40 + afterMs);
    const { roundTripMs } = plan;
    const soon = asked(at + 50 + roundTripMs, "renew");
    expect(findings(opened, ...confirmed, answer(roundTripMs + 1), soon)).toEqual([]);
    expect(findings(opened, ...confirmed, answer(roundTripMs - 1), soon)).toHaveLength(1);
  });
});
