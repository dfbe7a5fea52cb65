// Goal: the checks of recorded histories find every violation, and report a history that proves
// nothing as invalid. Method: a good history of a cut-off holder and, for each rule, the same
// history with the one change that breaks the rule.
import { describe, expect, test } from "vitest";
import { type HistoryEvent, parseHistory } from "../support/faults/history.ts";
import { type Expectation, type Invariant, judge } from "../support/faults/history-checks.ts";

const a = { process: "a", resource: "r", token: 1n };
const b = { process: "b", resource: "r", token: 2n };
const expectation: Expectation = { grantsMin: 2, actsMin: 4, livelyWithinMs: 2_000 };

/**
 * a is cut off at 300 and stops at 900. b is granted at 1000. a is back at 1500, and its late write
 * is refused.
 */
const good: readonly HistoryEvent[] = [
  { event: "granted", ...a, askedAt: 90, at: 100, safeUntil: 700 },
  { event: "wrote", ...a, began: 105, at: 106, outcome: "admitted", late: false },
  { event: "acted", ...a, began: 110, at: 111 },
  { event: "renewed", ...a, at: 250, safeUntil: 900 },
  { event: "fault", what: "cut", process: "a", effect: "unreachable", at: 300 },
  { event: "tookEffect", what: "cut", evidence: "120 bytes lost", at: 310 },
  { event: "acted", ...a, began: 600, at: 601 },
  { event: "doubted", ...a, at: 700 },
  { event: "told", ...a, reason: "expired", at: 900 },
  { event: "granted", ...b, askedAt: 150, at: 1_000, safeUntil: 1_800 },
  { event: "wrote", ...b, began: 1_002, at: 1_003, outcome: "admitted", late: false },
  { event: "acted", ...b, began: 1_010, at: 1_011 },
  { event: "healed", what: "cut", at: 1_500 },
  { event: "wrote", ...a, began: 1_600, at: 1_601, outcome: "refused", late: true },
  { event: "acted", ...b, began: 1_700, at: 1_701 },
];

function withMore(...more: readonly HistoryEvent[]): HistoryEvent[] {
  return [...good, ...more];
}

/** The good history, with a change to the events that match. */
function change(matches: (each: HistoryEvent) => boolean, fields: object): HistoryEvent[] {
  return good.map((each) => (matches(each) ? ({ ...each, ...fields } as HistoryEvent) : each));
}

function findBroken(history: readonly HistoryEvent[], asked = expectation): Invariant[] {
  return [...new Set(judge(history, asked).violations.map((each) => each.invariant))];
}

test("a good history has no violation and is valid", () => {
  expect(judge(good, expectation)).toEqual({ violations: [], invalid: [] });
});

test("the order of the lines does not matter", () => {
  expect(judge([...good].reverse(), expectation)).toEqual({ violations: [], invalid: [] });
});

const isGrantOf =
  (token: bigint) =>
  (each: HistoryEvent): boolean =>
    each.event === "granted" && each.token === token;

const breaches: readonly (readonly [Invariant, string, readonly HistoryEvent[]])[] = [
  [
    "S1",
    "a token is granted twice",
    withMore({ event: "granted", ...b, process: "c", askedAt: 1_800, at: 1_900, safeUntil: 2_500 }),
  ],
  [
    "S1",
    "a token decreases",
    withMore({ event: "granted", ...a, token: 0n, askedAt: 1_800, at: 1_900, safeUntil: 2_500 }),
  ],
  [
    "S2",
    "the guard admits a late write of the older term",
    change((each) => each.event === "wrote" && each.late, { outcome: "admitted" }),
  ],
  ["S3", "the next process is granted before safeUntil", change(isGrantOf(2n), { at: 899 })],
  [
    "S3",
    "a renewal set safeUntil too late",
    change((each) => each.event === "renewed", { safeUntil: 1_001 }),
  ],
  [
    "S4",
    "an act ends after the next grant",
    change((each) => each.event === "acted" && each.began === 600, { at: 1_000 }),
  ],
  [
    "S5",
    "a renewal of the older term is confirmed after the next grant",
    withMore({ event: "renewed", ...a, at: 1_200, safeUntil: 2_000 }),
  ],
  [
    "S5",
    "a late release of the older term frees the resource",
    withMore({ event: "released", ...a, began: 1_600, at: 1_610, result: "released" }),
  ],
  [
    "S6",
    "an act begins after safeUntil",
    change((each) => each.event === "renewed", { safeUntil: 600 }),
  ],
  ["S6", "an act begins in doubt", change((each) => each.event === "doubted", { at: 599 })],
  [
    "S6",
    "an act begins after the notification",
    change((each) => each.event === "told", { at: 599 }),
  ],
  [
    "S6",
    "an act begins while the lease is released",
    withMore({ event: "released", ...b, began: 1_650, at: 1_750, result: "released" }),
  ],
  [
    "S7",
    "a process that the store cannot reach is granted",
    withMore({ event: "granted", ...a, token: 3n, askedAt: 1_300, at: 1_400, safeUntil: 1_450 }),
  ],
  [
    "S7",
    "a process is granted while the store is unreachable",
    withMore(
      { event: "fault", what: "frozen", effect: "unreachable", at: 950 },
      { event: "tookEffect", what: "frozen", evidence: "no answer", at: 960 },
      { event: "healed", what: "frozen", at: 1_050 },
    ),
  ],
  [
    "liveness",
    "no process acts after the end of the fault",
    change((each) => each.event === "acted" && each.began === 1_700, { began: 1_400 }),
  ],
];

describe.each(breaches)("%s", (invariant, how, history) => {
  test(`is broken when ${how}`, () => {
    expect(findBroken(history)).toContain(invariant);
  });

  test(`is not reported where it is not promised: ${how}`, () => {
    const asked = { ...expectation, notPromised: [invariant] };
    expect(findBroken(history, asked)).not.toContain(invariant);
  });
});

test("S4: a process that was stopped between its check and its act is judged by its check", () => {
  const act = change((each) => each.event === "acted" && each.began === 600, { at: 1_000 });
  const stop: HistoryEvent[] = [
    { event: "fault", what: "stop", process: "a", effect: "stopped", at: 605 },
    { event: "tookEffect", what: "stop", evidence: "state T", at: 610 },
  ];
  expect(findBroken([...act, ...stop])).toEqual([]);
  const other = stop.map((each) => ("process" in each ? { ...each, process: "b" } : each));
  expect(findBroken([...act, ...other])).toEqual(["S4"]);
});

test("S3: a holder that released needs no deadline", () => {
  const early = change(isGrantOf(2n), { at: 899 }).filter((each) => each.event !== "told");
  const release = { event: "released", ...a, began: 800, at: 810, result: "released" } as const;
  expect(findBroken([...early, release])).toEqual([]);
});

test("S6: acts are allowed after doubt has ended", () => {
  const doubt: HistoryEvent[] = [
    { event: "doubted", ...a, at: 400 },
    { event: "settled", ...a, at: 500 },
  ];
  expect(findBroken(withMore(...doubt))).toEqual([]);
});

describe("a history is invalid if", () => {
  const invalid = (history: readonly HistoryEvent[], asked = expectation): readonly string[] =>
    judge(history, asked).invalid;

  test("it is empty", () => {
    expect(invalid([])).toEqual(["only 0 of 2 grants", "only 0 of 4 acts", "there was no fault"]);
  });

  test("it has too few grants or acts", () => {
    const asked = { ...expectation, grantsMin: 3, actsMin: 5 };
    expect(invalid(good, asked)).toEqual(["only 2 of 3 grants", "only 4 of 5 acts"]);
  });

  test("the fault had no effect", () => {
    const ineffective = good.filter((each) => each.event !== "tookEffect");
    expect(invalid(ineffective)).toEqual(["nothing shows that this had an effect: cut"]);
  });

  test("a process acted without a grant", () => {
    const stranger: HistoryEvent = { event: "acted", ...b, process: "c", began: 1_800, at: 1_801 };
    expect(invalid(withMore(stranger))).toEqual([
      "an act has a token that its process was not granted",
    ]);
  });
});

test("an incomplete last line is ignored, and tokens above 2^63 are exact", () => {
  const token = 2n ** 100n + 1n;
  const line = JSON.stringify({ event: "acted", ...a, token: String(token), began: 1, at: 2 });
  const [act, ...rest] = parseHistory(`${line}\n{"event":"act`);
  expect(act).toEqual({ event: "acted", ...a, token, began: 1, at: 2 });
  expect(rest).toEqual([]);
});
