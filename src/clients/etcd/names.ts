// How keys are named. Everything lies below one prefix, so that one permission covers it. A resource's name is the tail
// of its key, or stands behind its length: no two names can meet, whatever they contain.

// biome-ignore lint/style/noRestrictedImports: a digest, no chance in it
import { createHash } from "node:crypto";
import { InvalidArgumentError } from "../../core/errors.ts";

/** From a key up to another one, exclusive. */
interface Span {
  readonly key: Buffer;
  readonly end: Buffer;
}

export interface SessionNames {
  /** etcd's lease that is this session. */
  readonly lease: bigint;
  /** There as long as the session is. */
  readonly key: Buffer;
  /** The session's key, and behind it those of its leases that were revoked. */
  readonly span: Span;
  revoked(resource: string): Buffer;
  /** Where it is noted that an attempt is settled. */
  mark(attempt: string): Buffer;
}

export interface Names {
  readonly prefix: string;
  /** All keys of the store: what a role has to allow. */
  readonly all: Span;
  holder(resource: string): Buffer;
  resourceOf(holderKey: Buffer): string;
  /** Where the guard keeps the highest token of a resource. */
  highest(resource: string): Buffer;
  /** All holders whose resource begins so. */
  holders(prefix: string): Span;
  queue(resource: string): Span;
  waiter(resource: string, attempt: string): Buffer;
  session(id: string): SessionNames;
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
  const [holders, guards] = [`${prefix}l/`, `${prefix}g/`];
  const holdersLength = Buffer.byteLength(holders);
  const queue = (resource: string): string =>
    `${prefix}q/${Buffer.byteLength(resource)}:${resource}/`;
  return {
    prefix,
    all: spanBelow(Buffer.from(prefix)),
    holder: (resource) => Buffer.from(holders + resource),
    resourceOf: (key) => key.toString("utf8", holdersLength),
    highest: (resource) => Buffer.from(guards + resource),
    holders: (start) => below(holders + start),
    queue: (resource) => below(queue(resource)),
    waiter: (resource, attempt) => Buffer.from(queue(resource) + attempt),
    session: remembered((id) => sessionNames(prefix, id)),
  };
}

/** Nearly always it is the same session as the last time. */
function remembered(make: (id: string) => SessionNames): (id: string) => SessionNames {
  let last: { readonly id: string; readonly names: SessionNames } | undefined;
  return (id) => {
    if (last?.id !== id) last = { id, names: make(id) };
    return last.names;
  };
}

/** The key behind this one. */
export function behind(key: Buffer): Buffer {
  return Buffer.concat([key, Buffer.of(0)]);
}

function sessionNames(prefix: string, id: string): SessionNames {
  // The same from every process and at every time, so that nobody has to remember it; never 0, which means any.
  const lease = (digest(`${prefix}\0${id}`) >> 1n) | 1n;
  const folder = `${prefix}s/${hex(lease)}/`;
  const marks = `${prefix}m/${hex(lease)}/`;
  return {
    lease,
    key: Buffer.from(folder),
    span: below(folder),
    revoked: (resource) => Buffer.from(folder + resource),
    mark: (attempt) => Buffer.from(marks + attempt),
  };
}

function below(start: string): Span {
  return spanBelow(Buffer.from(start));
}

/** All keys that begin so. */
export function spanBelow(key: Buffer): Span {
  // The next beginning of the same length: bytes that cannot grow are left out, and where none can, there is no end.
  const last = key.findLastIndex((byte) => byte < 0xff);
  if (last < 0) return { key, end: Buffer.of(0) };
  const end = Buffer.from(key.subarray(0, last + 1));
  end[last] = (end[last] ?? 0) + 1;
  return { key, end };
}

function digest(text: string): bigint {
  return createHash("sha256").update(text).digest().readBigUInt64BE(0);
}

function hex(lease: bigint): string {
  return lease.toString(16).padStart(16, "0");
}
