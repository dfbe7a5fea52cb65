// The interface of a checker. It receives each event of a trace once, together with the facts from
// before that event, and reports violations of an invariant.

import type { Plan } from "../faults/plan.ts";
import type { TraceEvent } from "../world/trace.ts";
import type { Facts } from "./facts.ts";

export interface Violation {
  /** The number of the invariant in the design, such as S3, or a name if it has none. */
  readonly invariant: string;
  readonly message: string;
  readonly at: number;
}

export interface Checker {
  on(event: TraceEvent, facts: Facts, report: Report): void;
  /** Called after the last event. */
  end?(facts: Facts, report: Report): void;
}

export type Report = (invariant: string, message: string) => void;

export type MakeChecker = (plan: Plan) => Checker;
