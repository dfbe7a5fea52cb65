// The two kinds of records that the engine keeps, as values and as JSON text. Any program may have
// written what is read, so everything is checked. A record that does not make sense as a whole is a
// StoreUnusableError that concerns only its own key. A malformed session record is like a missing
// one.

import { StoreUnusableError } from "../../core/errors.ts";
import {
  decodeNotices,
  decodeToken,
  UNREADABLE_HOLDER,
  VALUE_BYTES_MAX,
} from "../../core/record.ts";
import { utf8Length } from "../../core/text.ts";
import { formatToken, isToken } from "../../core/token.ts";
import type { LeaseRef } from "../contract.ts";

/** The record of a session. Its owner renews it; others add to `revoked` and `wanted`, or end it. */
export interface SessionRecord {
  readonly holderId: string;
  readonly ttlMs: number;
  readonly quietAfterMs: number;
  /** Goes up by one with every renewal. Only the owner changes it. */
  readonly beat: number;
  /** An ended session stays ended. */
  readonly ended: boolean;
  /** Leases that were revoked and not acknowledged yet. */
  readonly revoked: readonly LeaseRef[];
  /** Leases of the session that another attempt waits for, or waited for. */
  readonly wanted: readonly LeaseRef[];
}

/** An attempt in the queue of a resource. */
export interface Waiter {
  readonly session: string;
  readonly attempt: string;
  readonly holderId: string;
  /** What the holder publishes, as JSON text, so that it is never nested in the record. */
  readonly value: string | undefined;
  readonly rank: number;
  /** The ttl of the session, for the case that its record is missing or malformed. */
  readonly ttlMs: number;
}

export interface Held extends Waiter {
  /** The wall clock of the process that granted the lease. For display only. */
  readonly grantedAtMs: number;
}

/** Stands for a session whose record is missing or malformed. Its owner cannot renew it. */
export const NO_SESSION: SessionRecord = {
  holderId: UNREADABLE_HOLDER,
  ttlMs: 0,
  quietAfterMs: 0,
  beat: -1,
  ended: false,
  revoked: [],
  wanted: [],
};

/** The record of a resource. It is never deleted, so its token never falls (S1). */
export interface LeaseRecord {
  /** The newest token. The holder has this one. Undefined before the first grant. */
  readonly token: bigint | undefined;
  /** The attempt of the newest grant, also after its end. */
  readonly lastAttempt: string | undefined;
  readonly held: Held | undefined;
  readonly queue: readonly Waiter[];
}

/** Converts one kind of record. */
export interface Codec<Content> {
  encode(content: Content, nonce: string): string;
  decode(body: string): Content;
}

export const NO_LEASE: LeaseRecord = {
  token: undefined,
  lastAttempt: undefined,
  held: undefined,
  queue: [],
};

export const LEASE: Codec<LeaseRecord> = {
  encode: ({ token, lastAttempt, held, queue }, nonce) => {
    if (token !== undefined && !isToken(token))
      throw new StoreUnusableError("The tokens of a record have reached their upper limit.");
    const digits = token === undefined ? {} : { token: formatToken(token) };
    return JSON.stringify({ v: 1, ...digits, lastAttempt, held, queue, nonce });
  },
  decode: (body) => {
    const { token, lastAttempt, held, queue } = decodeFields(body);
    const entries: readonly unknown[] = Array.isArray(queue) ? queue : [];
    const holder = held === undefined ? undefined : decodeHeld(held);
    const newest = token === undefined ? undefined : decodeToken(String(token));
    // Without a token a holder could not be told from its successors.
    if (held !== undefined && (holder === undefined || newest === undefined))
      throw malformed("lease", body);
    return {
      token: newest,
      lastAttempt: typeof lastAttempt === "string" ? lastAttempt : undefined,
      held: holder,
      queue: entries.map(decodeWaiter).filter((waiter) => waiter !== undefined),
    };
  },
};

export const SESSION: Codec<SessionRecord> = {
  encode: ({ revoked, wanted, ...facts }, nonce) =>
    JSON.stringify({ v: 1, ...facts, revoked: toPairs(revoked), wanted: toPairs(wanted), nonce }),
  decode: (body) => {
    const fields = tryDecodeFields(body);
    const { holderId, ttlMs, quietAfterMs, beat, ended, revoked, wanted } = fields;
    if (!isDuration(ttlMs) || !isDuration(quietAfterMs) || !isBeat(beat)) return NO_SESSION;
    return {
      holderId: typeof holderId === "string" ? holderId : UNREADABLE_HOLDER,
      ttlMs,
      quietAfterMs,
      beat,
      ended: ended === true,
      revoked: decodeNotices(findPairs(revoked)),
      wanted: decodeNotices(findPairs(wanted)),
    };
  },
};

/** The nonce of the write that produced this body. Undefined if another program wrote it. */
export function readNonce(body: string): unknown {
  try {
    return (JSON.parse(body) as { nonce?: unknown } | null)?.nonce;
  } catch {
    return undefined;
  }
}

function tryDecodeFields(body: string): Record<string, unknown> {
  try {
    return decodeFields(body);
  } catch {
    return {};
  }
}

/** The published value. A malformed one is shown as absent. */
export function readValue(text: string | undefined): unknown {
  try {
    return text === undefined || utf8Length(text) > VALUE_BYTES_MAX ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

function decodeFields(body: string): Record<string, unknown> {
  let fields: Record<string, unknown> | null;
  try {
    fields = JSON.parse(body);
  } catch (cause) {
    throw new StoreUnusableError(`A record is not JSON: ${body.slice(0, 80)}`, { cause });
  }
  if (fields?.v === 1) return fields;
  throw malformed("record of version 1", body);
}

function decodeHeld(entry: unknown): Held | undefined {
  const waiter = decodeWaiter(entry);
  const { grantedAtMs } = entry as { grantedAtMs?: unknown };
  return waiter && { ...waiter, grantedAtMs: Number(grantedAtMs) };
}

/** Undefined if the entry is malformed. It is then dropped from the queue. */
function decodeWaiter(entry: unknown): Waiter | undefined {
  if (typeof entry !== "object" || entry === null) return undefined;
  const { session, attempt, holderId, value, rank, ttlMs } = entry as Record<string, unknown>;
  if (typeof session !== "string" || typeof attempt !== "string" || !isDuration(ttlMs))
    return undefined;
  return {
    session,
    attempt,
    holderId: typeof holderId === "string" ? holderId : UNREADABLE_HOLDER,
    value: typeof value === "string" ? value : undefined,
    rank: Number.isSafeInteger(rank) ? (rank as number) : 0,
    ttlMs,
  };
}

/** Up to 24 days, the longest time of a Node timer. */
function isDuration(ms: unknown): ms is number {
  return typeof ms === "number" && ms > 0 && ms < 2 ** 31;
}

function isBeat(beat: unknown): beat is number {
  return Number.isSafeInteger(beat) && (beat as number) >= 0;
}

function findPairs(list: unknown): (readonly [unknown, unknown])[] {
  if (!Array.isArray(list)) return [];
  return list.filter((pair) => Array.isArray(pair)).map(([resource, token]) => [resource, token]);
}

function toPairs(refs: readonly LeaseRef[]): [resource: string, token: string][] {
  return refs.map(({ resource, token }) => [resource, formatToken(token)]);
}

function malformed(what: string, body: string): StoreUnusableError {
  return new StoreUnusableError(
    `The store keeps a ${what} that is malformed: ${body.slice(0, 80)}. Another program, or a newer Tenure, has written it.`,
  );
}
