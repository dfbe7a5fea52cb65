// Rejects options with an unknown name. TypeScript reports them at compile time. In plain
// JavaScript, a misspelled `ttlMs` or `guards` would be ignored, and the lease would be held with
// other settings than its caller believes.

import { InvalidArgumentError } from "./errors.ts";
import { findNearest } from "./nearest.ts";

/**
 * The names of all options of a type. The compiler reports a name that is missing here or does not
 * exist there. Internal options are accepted and never mentioned in a message.
 */
export type OptionNames<Options> = { readonly [Name in keyof Options]-?: true | "internal" };

/**
 * Throws for the first option with an unknown name. `call` is the function as its caller writes it,
 * such as `acquire()`. An option that is undefined counts as absent. This runs on every acquisition
 * and release, so it allocates nothing.
 */
export function checkOptionNames(
  call: string,
  given: unknown,
  known: Readonly<Record<string, true | "internal">>,
): void {
  if (given === undefined) return;
  if (typeof given !== "object" || given === null) {
    throw new InvalidArgumentError(
      `${call} takes its options as an object, got ${given === null ? "null" : `a ${typeof given}`}.`,
    );
  }
  for (const name in given) {
    if (Object.hasOwn(known, name)) continue;
    if ((given as Record<string, unknown>)[name] !== undefined)
      throw unknownOption(call, name, known);
  }
}

function unknownOption(
  call: string,
  name: string,
  known: Readonly<Record<string, true | "internal">>,
): InvalidArgumentError {
  const names = Object.keys(known).filter((option) => known[option] === true);
  const meant = findNearest(name, names);
  const hint =
    meant === undefined
      ? `Known are ${names.map((option) => `\`${option}\``).join(", ")}.`
      : `Did you mean \`${meant}\`?`;
  return new InvalidArgumentError(`Unknown option \`${name}\` of ${call}. ${hint}`);
}
