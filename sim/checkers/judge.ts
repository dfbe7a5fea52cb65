// From a finished day to a verdict. A day on which too little happened proves nothing: it is invalid, not green.

import { GRANTS_MIN, type Plan } from "../faults/plan.ts";
import { LEADER, LONGEST_STEP_MS } from "../workloads/leader.ts";
import type { Traced } from "../world/trace.ts";
import { CONTENDED, type Ended } from "../world/world.ts";
import type { Checker, MakeChecker, Violation } from "./checker.ts";
import { Facts } from "./facts.ts";
import { certainActs, deadline, lostReignsEnd, releaseBehindWork } from "./holder-side.ts";
import {
  boundedRequests,
  calmKeepsLeases,
  foreseenErrors,
  lively,
  nothingLeftBehind,
} from "./liveness.ts";
import { everyFireRuns, oneRunAFire } from "./once.ts";
import { firstComeFirstServed, keptForItsTtl, promptGrants } from "./queue.ts";
import { renewals } from "./renewals.ts";
import { guardedWrites, guardsAreAdvanced } from "./resource-side.ts";
import { conditionalEndings, oneGrantAnAttempt, oneHolder, risingTokens } from "./store-side.ts";
import { drainsEnd, revocationsAreTold } from "./told.ts";

const CHECKERS: readonly MakeChecker[] = [
  risingTokens,
  oneHolder,
  oneGrantAnAttempt,
  conditionalEndings,
  deadline,
  certainActs,
  releaseBehindWork,
  lostReignsEnd(LEADER, 1.1 * LONGEST_STEP_MS),
  guardedWrites,
  guardsAreAdvanced,
  renewals,
  firstComeFirstServed,
  promptGrants,
  keptForItsTtl,
  lively(CONTENDED),
  calmKeepsLeases,
  nothingLeftBehind,
  boundedRequests,
  foreseenErrors,
  oneRunAFire,
  everyFireRuns,
  revocationsAreTold,
  drainsEnd,
];

/** One cause often shows many times. */
const VIOLATIONS_MAX = 20;

export interface Verdict {
  readonly violations: readonly Violation[];
  /** Why the day proves nothing; empty when it does. */
  readonly invalid: readonly string[];
  readonly grants: number;
  readonly acts: number;
  /** Writes with an overtaken token that reached a guard. */
  readonly staleWrites: number;
  /** Of these, by a holder that was stopped between its check and its write; the others came once more, or late. */
  readonly ownStaleWrites: number;
}

export function judge(plan: Plan, ended: Ended): Verdict {
  const isWhole = ended.crash === undefined;
  const seen = checkTrace(plan, ended.trace.events, isWhole);
  const violations = isWhole ? [...seen, ...endOf(ended)] : [...endOf(ended), ...seen];
  const grants = count(ended, ({ kind }) => kind === "storeGranted");
  const acts = count(ended, ({ kind }) => kind === "acted");
  const staleWrites = count(ended, isStaleAtGuard);
  const ownStaleWrites = count(ended, isOwnStaleWrite);
  const invalid: string[] = [];
  if (ended.trace.faultCount < plan.faultsMin)
    invalid.push(`only ${ended.trace.faultCount} faults`);
  if (grants < GRANTS_MIN) invalid.push(`only ${grants} grants`);
  if (staleWrites === 0) invalid.push("nobody tried a stale write at a guard");
  const counts = { grants, acts, staleWrites, ownStaleWrites };
  return { violations: violations.slice(0, VIOLATIONS_MAX), invalid, ...counts };
}

/** `isWhole`: false for a day that broke off, of which nothing can be asked that was still to come. */
export function checkTrace(plan: Plan, events: readonly Traced[], isWhole = true): Violation[] {
  const facts = new Facts();
  const checkers: Checker[] = CHECKERS.map((make) => make(plan));
  const violations: Violation[] = [];
  let at = 0;
  /** Undefined: all. Of a store that forgot, what it promises even so, and the guard in any case. */
  let judged: ReadonlySet<string> | undefined;
  const report = (invariant: string, message: string): void => {
    if (judged === undefined || judged.has(invariant)) violations.push({ invariant, message, at });
  };
  for (const event of events) {
    at = event.at;
    if (event.kind === "storeForgot") {
      const promised = ["S2", ...(event.keeps ?? [])];
      const before = judged;
      judged = new Set(before === undefined ? promised : promised.filter((one) => before.has(one)));
    }
    for (const checker of checkers) checker.on(event, facts, report);
    facts.learn(event);
  }
  if (isWhole) for (const checker of checkers) checker.end?.(facts, report);
  return violations;
}

function endOf({ unfinished, ranAway, virtualMs, crash }: Ended): Violation[] {
  const at = virtualMs;
  if (crash !== undefined) return [{ invariant: "errors", message: crash, at }];
  if (ranAway) return [{ invariant: "runaway", message: "events without end", at }];
  return unfinished.map((name) => ({ invariant: "L4", message: `${name} did not close`, at }));
}

function isStaleAtGuard(event: Traced): boolean {
  return event.kind === "wrote" && event.guarded && event.stale;
}

function isOwnStaleWrite(event: Traced): boolean {
  return event.kind === "wrote" && event.sent === "after a stop" && isStaleAtGuard(event);
}

function count({ trace }: Ended, wanted: (event: Traced) => boolean): number {
  return trace.events.reduce((sum, event) => sum + (wanted(event) ? 1 : 0), 0);
}
