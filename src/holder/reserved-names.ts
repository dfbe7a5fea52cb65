// Reserved endings of resource names. once() keeps records of its own in the store, next to the
// resource they belong to. Callers cannot acquire resources with such names, and
// listings do not show them. read() and revoke() accept them, so an operator can inspect or remove
// a record.

import { InvalidArgumentError } from "../core/errors.ts";
import { checkResource } from "../core/resource.ts";

export const RESERVED_SUFFIXES = {
  /** Markers of runs that have begun: see once/markers.ts for why there are two. */
  firstMarker: "@once",
  secondMarker: "@once+",
} as const;

const SUFFIXES = Object.values(RESERVED_SUFFIXES);

/** Whether the resource is a record of Tenure's own. */
export function isReserved(resource: string): boolean {
  return SUFFIXES.some((suffix) => resource.endsWith(suffix));
}

/** Checks a name under which a caller wants to hold a lease, lead, or run work once. */
export function checkUnreserved(name: unknown): string {
  const resource = checkResource(name);
  const suffix = SUFFIXES.find((reserved) => resource.endsWith(reserved));
  if (suffix === undefined) return resource;
  throw new InvalidArgumentError(
    `The name "${resource}" ends with "${suffix}", which Tenure reserves for its own records. ` +
      "Choose another name.",
    { resource },
  );
}
