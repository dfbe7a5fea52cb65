// Compares the traces of two runs of the same seed.

import type { Violation } from "./checkers/checker.ts";
import type { Trace, TraceEvent } from "./world/trace.ts";

/** The name under which a run is reported that differs from its repetition. */
export const DETERMINISM = "determinism";

/**
 * Returns undefined if the traces are identical, otherwise a violation with the first difference.
 */
export function compareTraces(first: Trace, second: Trace): Violation | undefined {
  if (first.hash() === second.hash()) return undefined;
  const found = first.events.findIndex((event, at) => format(event) !== format(second.events[at]));
  const index = found === -1 ? first.events.length : found;
  const [one, other] = [first.events[index], second.events[index]];
  return {
    invariant: DETERMINISM,
    message: `two runs of the same seed differ. Event ${index + 1} was [${format(one)}], then [${format(other)}]`,
    at: one?.at ?? other?.at ?? 0,
  };
}

/** Shows every property: the timeline leaves some out, and one of those may differ. */
function format(event: TraceEvent | undefined): string {
  if (event === undefined) return "the end";
  return Object.entries(event)
    .map(([name, value]) => `${name} ${value}`)
    .join(", ");
}
