// Two days of the same seed, laid side by side.

import type { Violation } from "./checkers/checker.ts";
import type { Trace, Traced } from "./world/trace.ts";

/** The name under which a day is reported that is not the same the second time. */
export const DETERMINISM = "determinism";

/** Undefined when they are the same to the last digit; otherwise the first event that is not. */
export function differenceOf(first: Trace, second: Trace): Violation | undefined {
  if (first.hash() === second.hash()) return undefined;
  const found = first.events.findIndex((event, at) => shown(event) !== shown(second.events[at]));
  const place = found === -1 ? first.events.length : found;
  const [one, other] = [first.events[place], second.events[place]];
  return {
    invariant: DETERMINISM,
    message: `the same seed gave another day. Event ${place + 1} was [${shown(one)}], then [${shown(other)}]`,
    at: one?.at ?? other?.at ?? 0,
  };
}

/** All of it: what a timeline leaves out may be what differs. */
function shown(event: Traced | undefined): string {
  if (event === undefined) return "the end";
  return Object.entries(event)
    .map(([name, value]) => `${name} ${value}`)
    .join(", ");
}
