// Checks the history of a fault trial against the invariants of the design. It relies on the times
// that the processes recorded on the host's shared clock, never on what a library reports about
// itself. A history with too few events, or whose fault had no effect, proves nothing and is
// invalid.
import type { Acted, Fault, Granted, Healed, HistoryEvent, Released, Term } from "./history.ts";

export type Invariant = "S1" | "S2" | "S3" | "S4" | "S5" | "S6" | "S7" | "liveness";

interface Violation {
  readonly invariant: Invariant;
  readonly message: string;
}

export interface Expectation {
  /** A history with fewer grants or acts is invalid. */
  readonly grantsMin: number;
  readonly actsMin: number;
  /** Some process has to act again this soon after the last fault began or ended. */
  readonly livelyWithinMs: number;
  /** Not promised by this store under this fault. The test explains why, and what holds instead. */
  readonly notPromised?: readonly Invariant[] | undefined;
}

export interface Verdict {
  readonly violations: readonly Violation[];
  /** Why the history proves nothing; empty if it is valid. */
  readonly invalid: readonly string[];
}

export function judge(history: readonly HistoryEvent[], expectation: Expectation): Verdict {
  const sorted = [...history].sort((a, b) => a.at - b.at);
  const resources = new Set(sorted.flatMap((each) => ("token" in each ? [each.resource] : [])));
  const trouble = sorted.filter((each) => each.event === "fault" || each.event === "healed");
  const violations = [...resources].flatMap((resource) => {
    const terms = sorted.filter((each) => "token" in each && each.resource === resource) as Term[];
    return [...resourceFaults(terms, trouble), ...livenessFaults(terms, trouble, expectation)];
  });
  const notPromised = expectation.notPromised ?? [];
  return {
    violations: violations.filter(({ invariant }) => !notPromised.includes(invariant)),
    invalid: findInvalidities(sorted, expectation),
  };
}

type Trouble = readonly (Fault | Healed)[];

function resourceFaults(events: readonly Term[], trouble: Trouble): Violation[] {
  const grants = events.filter((each) => each.event === "granted");
  return [
    ...risingTokens(grants),
    ...guardedWrites(events),
    ...grants.flatMap((grant, index) => {
      const own = events.filter(
        (each) => each.token === grant.token && each.process === grant.process,
      );
      const next = grants[index + 1];
      return [
        ...ownEnd(grant, own),
        ...(next === undefined ? [] : succession({ grant, own, next, trouble })),
      ];
    }),
    ...grants.flatMap((grant) => unreachable(grant, trouble)),
  ];
}

/** S1: in the order in which the processes learned of their grants. */
function risingTokens(grants: readonly Granted[]): Violation[] {
  return grants.slice(1).flatMap((grant, index) => {
    const before = grants[index] as Granted;
    if (grant.token > before.token) return [];
    return violation("S1", `token ${grant.token} was granted after ${before.token}`);
  });
}

/** S2: a write that begins after another one has ended is not admitted with a lower token. */
function guardedWrites(events: readonly Term[]): Violation[] {
  let highest: Term | undefined;
  const faults: Violation[] = [];
  for (const write of events) {
    if (write.event !== "wrote" || write.outcome !== "admitted") continue;
    if (highest !== undefined && write.token < highest.token && write.began >= highest.at) {
      faults.push(
        ...violation("S2", `a write of ${write.token} was admitted after ${highest.token}`),
      );
    }
    if (highest === undefined || write.token > highest.token) highest = write;
  }
  return faults;
}

/** S6: no act begins after the deadline, in doubt, while releasing, or after a notification. */
function ownEnd(grant: Granted, own: readonly Term[]): Violation[] {
  let { safeUntil } = grant;
  let inDoubt = false;
  let over: string | undefined;
  const faults: Violation[] = [];
  // Sorted by beginning: what counts is what the process knew at that point.
  for (const each of [...own].sort((a, b) => beginning(a) - beginning(b))) {
    if (each.event === "renewed") safeUntil = each.safeUntil;
    if (each.event === "doubted") inDoubt = true;
    if (each.event === "settled") inDoubt = false;
    if (each.event === "told") over ??= `it was notified (${each.reason})`;
    if (each.event === "released") over ??= "its release began";
    if (each.event !== "acted") continue;
    const where = `process ${each.process} acted with ${each.token}`;
    if (each.began >= safeUntil)
      faults.push(...violation("S6", `${where} ${late(each.began, safeUntil)} its safeUntil`));
    if (inDoubt) faults.push(...violation("S6", `${where} in doubt`));
    if (over !== undefined) faults.push(...violation("S6", `${where} although ${over}`));
  }
  return faults;
}

interface Succession {
  readonly grant: Granted;
  readonly own: readonly Term[];
  readonly next: Granted;
  readonly trouble: Trouble;
}

/** S3, S4, S5: what a term may not do after the next grant is known. */
function succession({ grant, own, next, trouble }: Succession): Violation[] {
  const faults: Violation[] = [];
  const release = own.find((each) => each.event === "released" && each.began < next.at);
  const ends = own.flatMap((each) => ("safeUntil" in each ? [each.safeUntil] : []));
  const end = Math.max(...ends);
  const names = `of ${grant.token} after the grant of ${next.token}`;
  // A holder that released the lease needs no deadline.
  if (release === undefined && end >= next.at)
    faults.push(...violation("S3", `the safeUntil ${names}, ${late(end, next.at)}`));
  for (const act of own) {
    if (act.event !== "acted") continue;
    const instant = wasStopped(act, trouble) ? act.began : act.at;
    if (instant >= next.at)
      faults.push(...violation("S4", `an act ${names}, ${late(instant, next.at)}`));
  }
  for (const each of own) {
    if (each.event === "renewed" && each.safeUntil > next.at && each.at > next.at)
      faults.push(...violation("S5", `a renewal ${names}, ${late(each.at, next.at)}`));
    if (isFreeing(each) && each.began > next.at)
      faults.push(...violation("S5", `a release ${names} answered "released"`));
  }
  return faults;
}

function isFreeing(each: Term): each is Released {
  return each.event === "released" && each.result === "released";
}

/**
 * A process that is stopped between check and act is judged by its check; the guard does the rest.
 */
function wasStopped(act: Acted, trouble: Trouble): boolean {
  return trouble.some(
    (each) =>
      each.event === "fault" &&
      each.effect === "stopped" &&
      each.process === act.process &&
      each.at >= act.began - STOP_LAG_MS &&
      each.at <= act.at,
  );
}

/** The stop takes effect a little before the trial records it. */
const STOP_LAG_MS = 50;

/** S7: no process learns of a grant while the store cannot answer it. */
function unreachable(grant: Granted, trouble: Trouble): Violation[] {
  return trouble.flatMap((each) => {
    if (each.event !== "fault" || each.effect !== "unreachable") return [];
    if (each.process !== undefined && each.process !== grant.process) return [];
    const isIn = grant.at > each.at && grant.at < endOf(each, trouble);
    return isIn
      ? violation("S7", `${grant.process} was granted ${grant.token} in: ${each.what}`)
      : [];
  });
}

function endOf(fault: Fault, trouble: Trouble): number {
  const healed = trouble.find(
    (each) => each.event === "healed" && each.what === fault.what && each.at > fault.at,
  );
  return healed?.at ?? Number.POSITIVE_INFINITY;
}

function livenessFaults(
  events: readonly Term[],
  trouble: Trouble,
  { livelyWithinMs }: Expectation,
): Violation[] {
  const last = trouble.at(-1);
  if (last === undefined) return [];
  const isLively = events.some(
    (each) =>
      each.event === "acted" && each.began > last.at && each.began <= last.at + livelyWithinMs,
  );
  if (isLively) return [];
  return violation("liveness", `no process acted within ${livelyWithinMs} ms of: ${last.what}`);
}

function findInvalidities(history: readonly HistoryEvent[], expectation: Expectation): string[] {
  const count = (event: string): number => history.filter((each) => each.event === event).length;
  const reasons: string[] = [];
  const [grants, acts] = [count("granted"), count("acted")];
  if (grants < expectation.grantsMin)
    reasons.push(`only ${grants} of ${expectation.grantsMin} grants`);
  if (acts < expectation.actsMin) reasons.push(`only ${acts} of ${expectation.actsMin} acts`);
  const faults = history.filter((each) => each.event === "fault");
  if (faults.length === 0) reasons.push("there was no fault");
  for (const { what } of faults) {
    const tookEffect = history.some((each) => each.event === "tookEffect" && each.what === what);
    if (!tookEffect) reasons.push(`nothing shows that this had an effect: ${what}`);
  }
  const termOf = (each: Term): string => `${each.process} ${each.resource} ${each.token}`;
  const granted = new Set(
    history.flatMap((each) => (each.event === "granted" ? termOf(each) : [])),
  );
  if (history.some((each) => each.event === "acted" && !granted.has(termOf(each))))
    reasons.push("an act has a token that its process was not granted");
  return reasons;
}

function beginning(each: Term): number {
  return "began" in each ? each.began : each.at;
}

function late(instant: number, limit: number): string {
  return `${(instant - limit).toFixed(2)} ms after`;
}

function violation(invariant: Invariant, message: string): Violation[] {
  return [{ invariant, message }];
}
