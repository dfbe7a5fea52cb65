// Where the highest token of a resource is kept. A script may only touch keys of one cluster slot, so the key carries a
// hash tag that the user's own keys can carry too: that of the prefix, else that of the resource, else the resource.

import { InvalidArgumentError } from "../../core/errors.ts";
import { checkPrefix } from "../../core/resource.ts";

export const DEFAULT_PREFIX = "tenure:guard";

export type KeyOf = (resource: string) => string;

export function keysUnder(prefix: string): KeyOf {
  if (checkPrefix(prefix) === "") {
    throw new InvalidArgumentError(
      '`prefix` must not be empty: leave it out, or name e.g. "{billing}:guard".',
    );
  }
  if (findHashTag(prefix) !== undefined) return (resource) => `${prefix}:${resource}`;
  return (resource) => `${prefix}:{${findHashTag(resource) ?? resource}}:${resource}`;
}

/** What Redis hashes instead of the whole name: the text between the first { and the next }, unless that is empty. */
function findHashTag(name: string): string | undefined {
  return /^[^{]*\{([^}]+)\}/.exec(name)?.[1];
}
