// The two kinds of records that the engine keeps, as values and as JSON text. Any program may have
// written what is read, so everything is checked. A malformed lease record is a StoreUnusableError
// that concerns only its own resource. A malformed session record is like a missing one.

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
import { LEASE_PREFIX, SESSION_PREFIX } from "./backend.ts";

/** The record of a session. Its owner renews it. Others leave notices in it, or end it. */
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

/** Stands for a session whose record is missing or malformed. Its owner cannot renew it. */
const NO_SESSION: SessionRecord = {
  holderId: UNREADABLE_HOLDER,
  ttlMs: 0,
  quietAfterMs: 0,
  beat: -1,
  ended: false,
  revoked: [],
  wanted: [],
};

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
  /** When the lease was granted, by the wall clock of a process. Only of a holder, for display. */
  readonly grantedAtMs?: number | undefined;
}

/** The record of a resource. It is never deleted, so its token never falls (S1). */
export interface LeaseRecord {
  /** The newest token. The holder has this one. Undefined before the first grant. */
  readonly token: bigint | undefined;
  /** The attempt of the newest grant, also after its end. */
  readonly lastAttempt: string | undefined;
  readonly held: Waiter | undefined;
  readonly queue: readonly Waiter[];
}

const NO_LEASE: LeaseRecord = {
  token: undefined,
  lastAttempt: undefined,
  held: undefined,
  queue: [],
};

/** A key, and how the content of its record is written. */
export interface Place<Content> {
  readonly key: string;
  /** The content while there is no record. */
  readonly missing: Content;
  encode(content: Content, nonce: string): string;
  decode(body: string): Content;
}

export function leaseAt(resource: string): Place<LeaseRecord> {
  const key = LEASE_PREFIX + resource;
  return { key, missing: NO_LEASE, encode: encodeLease, decode: decodeLease };
}

export function sessionAt(id: string): Place<SessionRecord> {
  const key = SESSION_PREFIX + id;
  return { key, missing: NO_SESSION, encode: encodeSession, decode: decodeSession };
}

function encodeLease({ token, ...rest }: LeaseRecord, nonce: string): string {
  if (token !== undefined && !isToken(token))
    throw new StoreUnusableError("The tokens of a resource have reached their upper limit.");
  return JSON.stringify({ v: 1, token: token?.toString(), ...rest, nonce });
}

export function decodeLease(body: string): LeaseRecord {
  const { v, token, lastAttempt, held, queue } = decodeFields(body);
  const holder = held === undefined ? undefined : decodeWaiter(held);
  const newest = token === undefined ? undefined : decodeToken(String(token));
  // Without a token, a holder could not be distinguished from its successors.
  if (v !== 1 || (held !== undefined && (holder === undefined || newest === undefined))) {
    const text = `The store keeps a lease record that is malformed: ${body.slice(0, 80)}`;
    throw new StoreUnusableError(`${text}. Another program, or a newer Tenure, has written it.`);
  }
  const entries: readonly unknown[] = Array.isArray(queue) ? queue : [];
  return {
    token: newest,
    lastAttempt: typeof lastAttempt === "string" ? lastAttempt : undefined,
    held: holder,
    queue: entries.map(decodeWaiter).filter((waiter) => waiter !== undefined),
  };
}

function encodeSession({ revoked, wanted, ...rest }: SessionRecord, nonce: string): string {
  const toPairs = (refs: readonly LeaseRef[]): string[][] =>
    refs.map(({ resource, token }) => [resource, formatToken(token)]);
  const notices = { revoked: toPairs(revoked), wanted: toPairs(wanted) };
  return JSON.stringify({ v: 1, ...rest, ...notices, nonce });
}

export function decodeSession(body: string): SessionRecord {
  const { v, holderId, ttlMs, quietAfterMs, beat, ended, ...notices } = decodeFields(body);
  const isBeat = Number.isSafeInteger(beat) && (beat as number) >= 0;
  if (v !== 1 || !isDuration(ttlMs) || !isDuration(quietAfterMs) || !isBeat) return NO_SESSION;
  return {
    holderId: typeof holderId === "string" ? holderId : UNREADABLE_HOLDER,
    ttlMs,
    quietAfterMs,
    beat: beat as number,
    ended: ended === true,
    revoked: decodePairs(notices.revoked),
    wanted: decodePairs(notices.wanted),
  };
}

/** The nonce of the write that produced this body. Undefined if another program wrote it. */
export function readNonce(body: string): unknown {
  return decodeFields(body).nonce;
}

/** The published value. A malformed one is shown as absent. */
export function readValue(text: string | undefined): unknown {
  try {
    return text === undefined || utf8Length(text) > VALUE_BYTES_MAX ? undefined : JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** No fields if the text is not a JSON object. */
function decodeFields(body: string): Record<string, unknown> {
  try {
    const fields: unknown = JSON.parse(body);
    return typeof fields === "object" && fields !== null ? { ...fields } : {};
  } catch {
    return {};
  }
}

/** Undefined if the entry is malformed. It is then dropped from the queue. */
function decodeWaiter(entry: unknown): Waiter | undefined {
  const fields = typeof entry === "object" && entry !== null ? entry : {};
  const { session, attempt, holderId, value, ...numbers } = fields as Record<string, unknown>;
  const { rank, ttlMs, grantedAtMs } = numbers;
  if (!isName(session) || !isName(attempt) || !isDuration(ttlMs)) return undefined;
  return {
    session,
    attempt,
    ttlMs,
    holderId: typeof holderId === "string" ? holderId : UNREADABLE_HOLDER,
    value: typeof value === "string" ? value : undefined,
    rank: typeof rank === "number" ? rank : 0,
    grantedAtMs: typeof grantedAtMs === "number" ? grantedAtMs : undefined,
  };
}

function isName(name: unknown): name is string {
  return typeof name === "string" && name.length <= 256;
}

/** Up to 24 days, the longest time of a Node timer. */
function isDuration(ms: unknown): ms is number {
  return typeof ms === "number" && ms > 0 && ms < 2 ** 31;
}

function decodePairs(list: unknown): LeaseRef[] {
  const pairs: unknown[][] = Array.isArray(list) ? list.filter(Array.isArray) : [];
  return decodeNotices(pairs.map(([resource, token]) => [resource, token]));
}
