// Runs all checkers on a trace and gives the verdict. A run in which too little happened proves
// nothing: it is invalid, which counts as a failure.

import { GRANTS_MIN, type Plan } from "../faults/plan.ts";
import { LEADER, LONGEST_STEP_MS } from "../workloads/leader.ts";
import type { TraceEvent } from "../world/trace.ts";
import { CONTENDED, type RunResult } from "../world/world.ts";
import type { Checker, MakeChecker, Violation } from "./checker.ts";
import { Facts } from "./facts.ts";
import { handoffsReachWaiters, handsOffAtOnce, handsOffInOrder } from "./handoff.ts";
import { certainActs, deadline, lostTermsEnd, releaseAfterWork } from "./holder-side.ts";
import {
  boundedRequests,
  calmKeepsLeases,
  contendedResourcesActive,
  expectedErrors,
  nothingLeftBehind,
} from "./liveness.ts";
import { drainsEnd, revocationsReachHolders } from "./notifications.ts";
import { everyFireRuns, oneRunPerFire } from "./once.ts";
import { renewals } from "./renewals.ts";
import { guardedWrites, guardsAdvanceFirst } from "./resource-side.ts";
import {
  conditionalEndings,
  oneGrantPerAttempt,
  oneHolder,
  risingTokens,
  sessionsExpire,
} from "./store-side.ts";

const CHECKERS: readonly MakeChecker[] = [
  risingTokens,
  oneHolder,
  oneGrantPerAttempt,
  conditionalEndings,
  deadline,
  certainActs,
  releaseAfterWork,
  lostTermsEnd(LEADER, 1.1 * LONGEST_STEP_MS),
  guardedWrites,
  guardsAdvanceFirst,
  renewals,
  handsOffInOrder,
  handsOffAtOnce,
  handoffsReachWaiters,
  sessionsExpire,
  contendedResourcesActive(CONTENDED),
  calmKeepsLeases,
  nothingLeftBehind,
  boundedRequests,
  expectedErrors,
  oneRunPerFire,
  everyFireRuns,
  revocationsReachHolders,
  drainsEnd,
];

/** One cause often produces many violations. */
const VIOLATIONS_MAX = 20;

export interface Verdict {
  readonly violations: readonly Violation[];
  /** Why the run proves nothing; empty if it is valid. */
  readonly invalid: readonly string[];
  readonly grants: number;
  readonly acts: number;
  /** Stale writes that reached a guard. */
  readonly staleWrites: number;
  /**
   * Stale writes of a holder that was stopped between its check and its write. The others were
   * replayed or delayed.
   */
  readonly ownStaleWrites: number;
}

export function judge(plan: Plan, result: RunResult): Verdict {
  const isComplete = result.crash === undefined;
  const inTrace = checkTrace(plan, result.trace.events, isComplete);
  const atEnd = checkEnd(result);
  const violations = isComplete ? [...inTrace, ...atEnd] : [...atEnd, ...inTrace];
  const grants = count(result, ({ kind }) => kind === "storeGranted");
  const acts = count(result, ({ kind }) => kind === "acted");
  const staleWrites = count(result, isStaleAtGuard);
  const ownStaleWrites = count(result, isOwnStaleWrite);
  const invalid: string[] = [];
  if (result.trace.faultCount < plan.faultsMin)
    invalid.push(`only ${result.trace.faultCount} faults`);
  if (grants < GRANTS_MIN) invalid.push(`only ${grants} grants`);
  if (staleWrites === 0) invalid.push("no stale write reached a guard");
  const counts = { grants, acts, staleWrites, ownStaleWrites };
  return { violations: violations.slice(0, VIOLATIONS_MAX), invalid, ...counts };
}

/** `isComplete` is false for a run that crashed: what had not happened by then is not required. */
export function checkTrace(
  plan: Plan,
  events: readonly TraceEvent[],
  isComplete = true,
): Violation[] {
  const facts = new Facts();
  const checkers: Checker[] = CHECKERS.map((make) => make(plan));
  const violations: Violation[] = [];
  let at = 0;
  /**
   * The invariants to check; undefined means all. A store that lost writes is held to S2 and to
   * what it still guarantees.
   */
  let checked: ReadonlySet<string> | undefined;
  const report = (invariant: string, message: string): void => {
    if (checked === undefined || checked.has(invariant))
      violations.push({ invariant, message, at });
  };
  for (const event of events) {
    at = event.at;
    if (event.kind === "storeForgot") {
      const promised = ["S2", ...(event.keeps ?? [])];
      const before = checked;
      checked = new Set(
        before === undefined ? promised : promised.filter((one) => before.has(one)),
      );
    }
    for (const checker of checkers) checker.on(event, facts, report);
    facts.apply(event);
  }
  if (isComplete) for (const checker of checkers) checker.end?.(facts, report);
  return violations;
}

function checkEnd({ unfinished, ranAway, virtualMs, crash }: RunResult): Violation[] {
  const at = virtualMs;
  if (crash !== undefined) return [{ invariant: "errors", message: crash, at }];
  if (ranAway)
    return [
      { invariant: "runaway", message: "the run did not end within the limit of events", at },
    ];
  return unfinished.map((name) => ({ invariant: "L4", message: `${name} did not close`, at }));
}

function isStaleAtGuard(event: TraceEvent): boolean {
  return event.kind === "wrote" && event.guarded && event.stale;
}

function isOwnStaleWrite(event: TraceEvent): boolean {
  return event.kind === "wrote" && event.sent === "after a stop" && isStaleAtGuard(event);
}

function count({ trace }: RunResult, wanted: (event: TraceEvent) => boolean): number {
  return trace.events.reduce((sum, event) => sum + (wanted(event) ? 1 : 0), 0);
}
