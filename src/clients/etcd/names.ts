// Names the keys of the store. All of them begin with one prefix, so one permission covers them.
// Resource names contain no NUL, so a NUL ends the name of a resource in a key, and keys sort by
// resource.
//
//   l/<resource> NUL <attempt>   the queue of a resource: the oldest key holds it
//   s/<lease>/                   a session, which is an etcd lease
//   s/<lease>/r/<resource>       a lease of the session was revoked; the value is its token
//   s/<lease>/w/<resource>       an attempt waits for a lease of the session, as above
//   m/<lease>/<attempt>          an attempt of the session has ended
//   p/<resource>                 the holder that the last release preferred
//   g/<resource>                 the highest token that a guard has admitted

// biome-ignore lint/style/noRestrictedImports: a digest; nothing random
import { createHash } from "node:crypto";
import { InvalidArgumentError } from "../../core/errors.ts";

/** The keys from `key` up to `end`, exclusive. */
export interface Span {
  readonly key: Buffer;
  readonly end: Buffer;
}

export interface SessionNames {
  /** The etcd lease that is this session. */
  readonly lease: bigint;
  /** Exists as long as the session does. */
  readonly key: Buffer;
  /** The key of the session and the notes for it. */
  readonly span: Span;
  revoked(resource: string): Buffer;
  wanted(resource: string): Buffer;
  mark(attempt: string): Buffer;
  /** The fact and the resource that the key of a note names. */
  readNote(key: Buffer): { readonly kind: "revoked" | "wanted"; readonly resource: string };
}

/** What the key of a queued attempt says. */
interface QueueKey {
  readonly resource: string;
  readonly attempt: string;
  /** The rank, if the attempt has one. */
  readonly rank?: number | undefined;
  /** The create revision of the first key of the attempt, if this is a later one. */
  readonly since?: bigint | undefined;
  /** Makes the name of a later key new. */
  readonly moved?: bigint | undefined;
}

export interface Names {
  readonly prefix: string;
  /** All keys of the store: what a role has to allow. */
  readonly all: Span;
  /** The queue of the resource. */
  queue(resource: string): Span;
  /** The queues of all resources whose names begin with this. */
  queues(prefix: string): Span;
  /** All keys that an attempt can have in the queue. It has one at a time. */
  attempt(resource: string, attempt: string): Span;
  queueKey(facts: QueueKey): Buffer;
  /** Undefined if another program has written the key. */
  readQueueKey(key: Buffer): QueueKey | undefined;
  preferred(resource: string): Buffer;
  highest(resource: string): Buffer;
  session(id: string): SessionNames;
  sessionOfLease(lease: bigint): SessionNames;
}

const PREFIX = /^[A-Za-z0-9_.:/-]{1,128}$/;

export function checkedPrefix(prefix: unknown): string {
  if (typeof prefix !== "string" || !PREFIX.test(prefix)) {
    throw new InvalidArgumentError(
      `\`prefix\` must be 1 to 128 of the characters A-Z a-z 0-9 _ . : / -, got ${JSON.stringify(prefix)}.`,
    );
  }
  return prefix.endsWith("/") ? prefix : `${prefix}/`;
}

export function namesOf(prefix: string): Names {
  const queues = `${prefix}l/`;
  const queuesLength = Buffer.byteLength(queues);
  // Nearly always it is the same session as the last time.
  let last: { readonly id: string; readonly names: SessionNames } | undefined;
  return {
    prefix,
    all: toSpan(prefix),
    queue: (resource) => toSpan(`${queues}${resource}\0`),
    queues: (start) => toSpan(queues + start),
    attempt: (resource, attempt) => {
      const key = `${queues}${resource}\0${attempt}`;
      return { key: Buffer.from(key), end: toBytes(`${key}\x01`) };
    },
    queueKey: ({ resource, attempt, rank, since, moved }) => {
      const parts = [resource, attempt, rank, since, moved].filter((part) => part !== undefined);
      return Buffer.from(queues + parts.join("\0"));
    },
    readQueueKey: (key) => {
      const [resource = "", attempt, rank, since] = key.toString("utf8", queuesLength).split("\0");
      if (attempt === undefined) return undefined;
      const isRanked = rank !== undefined && /^[0-9]{1,9}$/.test(rank);
      const isMoved = since !== undefined && /^[0-9]{1,18}$/.test(since);
      return {
        resource,
        attempt,
        rank: isRanked ? Number(rank) : undefined,
        since: isMoved ? BigInt(since) : undefined,
      };
    },
    preferred: (resource) => toBytes(`${prefix}p/${resource}`),
    highest: (resource) => toBytes(`${prefix}g/${resource}`),
    session: (id) => {
      if (last?.id !== id) {
        // The same in every process, so that no process has to remember it. Never 0: that means
        // any lease.
        const lease = (digest(`${prefix}\0${id}`) >> 1n) | 1n;
        last = { id, names: sessionNames(prefix, lease) };
      }
      return last.names;
    },
    sessionOfLease: (lease) => sessionNames(prefix, lease),
  };
}

/** The key that follows this one. */
export function keyAfter(key: Buffer): Buffer {
  return Buffer.concat([key, Buffer.of(0)]);
}

function sessionNames(prefix: string, lease: bigint): SessionNames {
  const id = lease.toString(16).padStart(16, "0");
  const folder = `${prefix}s/${id}/`;
  const key = Buffer.from(folder);
  return {
    lease,
    key,
    span: spanBelow(key),
    revoked: (resource) => toBytes(`${folder}r/${resource}`),
    wanted: (resource) => toBytes(`${folder}w/${resource}`),
    mark: (attempt) => toBytes(`${prefix}m/${id}/${attempt}`),
    readNote: (note) => ({
      kind: note[key.length] === 0x77 ? "wanted" : "revoked",
      resource: note.toString("utf8", key.length + 2),
    }),
  };
}

function toBytes(text: string): Buffer {
  return Buffer.from(text);
}

function toSpan(start: string): Span {
  return spanBelow(Buffer.from(start));
}

/** All keys that begin with this one. */
export function spanBelow(key: Buffer): Span {
  // The end is the next text of the same length. Trailing bytes that cannot be raised are dropped.
  const last = key.findLastIndex((byte) => byte < 0xff);
  if (last < 0) return { key, end: Buffer.of(0) };
  const end = Buffer.from(key.subarray(0, last + 1));
  end[last] = (end[last] ?? 0) + 1;
  return { key, end };
}

function digest(text: string): bigint {
  return createHash("sha256").update(text).digest().readBigUInt64BE(0);
}
