// The key of a resource's highest token. A script may only use keys of one cluster slot, so the key
// contains a hash tag that the user's own keys can contain, too: that of the prefix, else that of
// the resource, else the resource itself.

import { InvalidArgumentError } from "../../core/errors.ts";
import { checkPrefix } from "../../core/resource.ts";

export const DEFAULT_PREFIX = "tenure:guard";

/** Returns the function from a resource to its key. */
export function keysUnder(prefix: string): (resource: string) => string {
  if (checkPrefix(prefix) === "") {
    throw new InvalidArgumentError(
      '`prefix` must not be empty: leave it out, or name e.g. "{billing}:guard".',
    );
  }
  if (findHashTag(prefix) !== undefined) return (resource) => `${prefix}:${resource}`;
  return (resource) => `${prefix}:{${findHashTag(resource) ?? resource}}:${resource}`;
}

/**
 * The part of a key that Redis hashes: the text between the first { and the next }, unless that is
 * empty.
 */
function findHashTag(name: string): string | undefined {
  return /^[^{]*\{([^}]+)\}/.exec(name)?.[1];
}
