// The names of keys and channels. All keys of one namespace have the same hash tag and so are in
// one slot of a cluster, where a script may use any of them. The name of a resource or session is
// always the end of a key, so no two names collide, whatever they contain.

import { InvalidArgumentError } from "../../core/errors.ts";

export interface Names {
  /** The start of every key and channel. An ACL has to allow it, followed by a star. */
  readonly base: string;
  /** The counter of tokens. */
  readonly token: string;
  /** The server process that the counter belongs to, and the first token of its era. */
  readonly era: string;
  /** The channel on which changes are published while a process watches. */
  readonly changes: string;
  /** The text of a lease. */
  lease(resource: string): string;
  /** The set of facts that a session has to learn. */
  notices(sessionId: string): string;
  /** The channel on which a process learns facts about its sessions. */
  facts(processId: string): string;
}

/** Neither braces, which would end the hash tag, nor characters that are special in a pattern. */
const PREFIX = /^[A-Za-z0-9_.:/-]{1,64}$/;

export function namesOf(prefix: unknown): Names {
  if (typeof prefix !== "string" || !PREFIX.test(prefix)) {
    throw new InvalidArgumentError(
      `\`prefix\` must be 1 to 64 of the characters A-Z a-z 0-9 _ . : / -, got ${JSON.stringify(prefix)}.`,
    );
  }
  const base = `{${prefix}}:`;
  return {
    base,
    token: `${base}token`,
    era: `${base}era`,
    changes: `${base}changes`,
    lease: (resource) => `${base}r:${resource}`,
    notices: (sessionId) => `${base}n:${sessionId}`,
    facts: (processId) => `${base}f:${processId}`,
  };
}
