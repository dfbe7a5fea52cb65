// How keys and channels are named. All keys of one namespace share a hash tag and so live in one slot of a cluster: a
// script may touch any of them. A resource's name is always the whole tail of a key, so that no two names can meet,
// whatever they contain.

import { InvalidArgumentError } from "../../core/errors.ts";

export interface Names {
  /** What every key and channel of the namespace begins with; also what an ACL has to allow, with a star behind it. */
  readonly base: string;
  /** The key of every held lease, in the order of its bytes: for listings. */
  readonly held: string;
  /** There while somebody watches. */
  readonly watched: string;
  /** The server process whose counter is valid, and where its tokens start. */
  readonly era: string;
  /** Written once at connect, to see that writing works. */
  readonly probe: string;
  /** Every channel of the namespace. */
  readonly everyChannel: string;
  session(id: string): string;
  revoked(sessionId: string): string;
  lease(resource: string): string;
  queue(resource: string): string;
  channel(resource: string): string;
  /** Where one waiter is told, when its turn is near. */
  turn(attempt: string): string;
}

/** No braces (they would end the hash tag) and nothing that is special in a pattern. */
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
    held: `${base}held`,
    watched: `${base}watched`,
    era: `${base}era`,
    probe: `${base}probe`,
    everyChannel: `${base}*`,
    session: (id) => `${base}s:${id}`,
    revoked: (sessionId) => `${base}v:${sessionId}`,
    lease: (resource) => `${base}r:${resource}`,
    queue: (resource) => `${base}q:${resource}`,
    channel: (resource) => `${base}c:${resource}`,
    turn: (attempt) => `${base}t:${attempt}`,
  };
}
