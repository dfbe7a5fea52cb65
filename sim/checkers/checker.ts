// A checker looks at each event of a trace once, knowing what was known before it, and reports what must not be.

import type { Plan } from "../faults/plan.ts";
import type { Traced } from "../world/trace.ts";
import type { Facts } from "./facts.ts";

export interface Violation {
  /** The invariant's number in the design, or a word for what has none. */
  readonly invariant: string;
  readonly message: string;
  readonly at: number;
}

export interface Checker {
  on(event: Traced, facts: Facts, report: Report): void;
  /** The day is over. */
  end?(facts: Facts, report: Report): void;
}

export type Report = (invariant: string, message: string) => void;

export type MakeChecker = (plan: Plan) => Checker;
