// Goal: the checkers of handoff report the violations they exist for and accept correct traces.
// Method: small hand-written traces, each with and without the violation.
import { expect, test } from "vitest";
import { renewEveryMs, settlingMs } from "../faults/plan.ts";
import { CALM, check, freed, grant, kept, plan, r, type Step } from "./support/traces.ts";

const FROM = CALM + settlingMs(plan);
const FREE = FROM + 400;

/** A program requests r, and the store confirms that the attempt is in the queue. */
function queued(at: number, who: string, session: string): Step[] {
  const attempt = `${session}.2`;
  const about = { resource: "r", attempt };
  return [
    [at, who, { kind: "asked", what: "grant", session, now: at, ...about }],
    [at + 5, who, { kind: "queued", ...about, sentAtTrue: at }],
  ];
}

/** Session a holds r, and b waits for it, then c. All were renewed at FROM. */
const waiting: Step[] = [
  kept(FROM, FROM + plan.ttlMs),
  kept(FROM, FROM + plan.ttlMs, "b"),
  kept(FROM, FROM + plan.ttlMs, "c"),
  grant(FROM, 1n),
  ...queued(FROM + 10, "p2", "b"),
  ...queued(FROM + 20, "p3", "c"),
  [FREE - 1, "p1", { kind: "gaveUp", ...r }],
];
const held = (at: number, who: string): Step => [
  at,
  who,
  { kind: "held", resource: "r", token: 2n, now: at, safeUntil: at + 9, withGuards: false },
];
const shutdown: Step = [FREE + 1_500, "world", { kind: "evening" }];

test("L2: a resource that was freed is granted in the same step", () => {
  const learned = held(FREE + 3, "p2");
  expect(check(...waiting, freed(FREE, "released"), grant(FREE, 2n, "b"), learned)).toEqual([]);
  expect(check(...waiting, freed(FREE, "released"), grant(FREE + 1, 2n, "b"), learned)).toEqual([
    "L2: r was freed, and p2 still waits for it",
  ]);
  const left: Step[] = ["p2", "p3"].map((who) => [FREE - 2, who, { kind: "crashed" }]);
  expect(check(...waiting, ...left, freed(FREE, "released"), shutdown)).toEqual([]);
});

test("FIFO: a later waiter is granted only if every earlier one may be quiet", () => {
  const steps = [freed(FREE, "released"), grant(FREE, 2n, "c"), held(FREE + 3, "p3")];
  expect(check(...waiting, ...steps)).toEqual([
    "FIFO: r: 2 went to p3, although p2 had waited longer",
  ]);
  const quiet = waiting.filter(([, , data]) => data.kind !== "storeKept" || data.session !== "b");
  const before = FREE - renewEveryMs(plan) - plan.roundTripMs;
  const early = kept(before, before + plan.ttlMs, "b");
  expect(check(early, ...quiet, ...steps)).toEqual([]);
});

test("L1: a resource whose holder expired is granted at once", () => {
  const until = FROM + plan.ttlMs;
  const later = until - 100;
  const expiring: Step[] = [
    ...waiting.filter(([, , { kind }]) => kind !== "gaveUp"),
    kept(later, later + plan.ttlMs, "b"),
    kept(later, later + plan.ttlMs, "c"),
  ];
  const soon = until + plan.clockErrorMs + plan.storeLagMs + 20;
  expect(check(...expiring, grant(soon, 2n, "b"), held(soon + 3, "p2"))).toEqual([]);
  expect(check(...expiring, grant(soon + 9, 2n, "b"), held(soon + 12, "p2"))).toEqual([
    "L1: r expired, and p2 still waits for it",
  ]);
});

test("L2: a waiter learns of its grant after one renewal interval at the latest", () => {
  const granted = [...waiting, freed(FREE, "released"), grant(FREE, 2n, "b")];
  const late = FREE + 1.06 * renewEveryMs(plan) + 60;
  const renewals = [kept(FREE + 1, late + plan.ttlMs, "b"), kept(FREE + 1, late + plan.ttlMs, "c")];
  expect(check(...granted, ...renewals, held(late - 20, "p2"), shutdown)).toEqual([]);
  expect(check(...granted, ...renewals, held(late, "p2"))).toEqual([
    "L2: p2 was granted r 2 and does not know it",
  ]);
  const crashed: Step = [FREE + 1, "p2", { kind: "crashed" }];
  expect(check(...granted, ...renewals, crashed, held(late, "p2"))).toEqual([]);
});
