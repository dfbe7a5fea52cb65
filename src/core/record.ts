// The record that a store keeps about the holder of a lease: one JSON text for all stores, readable
// in a console. It is checked before it is written and after it is read. Text from a backend is
// untrusted input, because any other program may have written it.

import { InvalidArgumentError, StoreUnusableError } from "./errors.ts";
import { hasLoneSurrogate, utf8Length } from "./text.ts";
import { parseToken } from "./token.ts";

/** A larger value would slow down every grant. Publish an address, not a document. */
export const VALUE_BYTES_MAX = 4096;
const HOLDER_BYTES_MAX = 256;

/** Reported in place of the holder's name when its record is malformed. The lease is still held. */
export const UNREADABLE_HOLDER = "(unreadable record)";

export interface LeaseRecord {
  readonly holderId: string;
  readonly sessionId: string;
  /** The acquisition that was granted. No two acquisitions share an id. */
  readonly attempt: string;
  /** What the holder publishes about itself: any JSON value. */
  readonly value?: unknown;
  /**
   * When the lease was granted, on stores that keep this in the record. The store defines the
   * clock. Records of older versions lack it.
   */
  readonly grantedAtMs?: number | undefined;
  /** The boot that `grantedAtMs` counts from, on stores that use a clock of the host. */
  readonly bootId?: string | undefined;
}

export function encodeRecord(record: LeaseRecord): string {
  const holderId = encodeHolderId(record.holderId);
  const value = encodeValue(record.value);
  const names = `"sessionId":${JSON.stringify(record.sessionId)},"attempt":${JSON.stringify(record.attempt)}`;
  const rest = value === undefined ? "" : `,"value":${value}`;
  const boot = record.bootId === undefined ? "" : `,"bootId":${JSON.stringify(record.bootId)}`;
  // This field must be last: a script of the Redis store appends it.
  const granted =
    record.grantedAtMs === undefined ? "" : `,"grantedAtMs":${Math.round(record.grantedAtMs)}`;
  return `{"v":1,"holderId":${holderId},${names}${rest}${boot}${granted}}`;
}

/** Cache of the last holderId: a process has one and uses it for many leases. */
let lastHolderId: string | undefined;
let lastEncoded = "";

function encodeHolderId(holderId: string): string {
  if (holderId !== lastHolderId) {
    lastEncoded = JSON.stringify(checkHolderId(holderId));
    lastHolderId = holderId;
  }
  return lastEncoded;
}

export function decodeRecord(text: string): LeaseRecord {
  let raw: unknown;
  try {
    raw = JSON.parse(text);
  } catch (cause) {
    throw new StoreUnusableError(`A lease record is not JSON: ${shorten(text)}`, { cause });
  }
  if (typeof raw !== "object" || raw === null) throw unreadable(text);
  const fields = raw as Record<string, unknown>;
  if (fields.v !== 1) {
    throw new StoreUnusableError(
      `A lease record has version ${shownVersion(fields.v)}; this Tenure reads version 1. Upgrade it on every host.`,
    );
  }
  const { holderId, sessionId, attempt, value } = fields;
  if (
    typeof holderId !== "string" ||
    typeof sessionId !== "string" ||
    typeof attempt !== "string"
  ) {
    throw unreadable(text);
  }
  try {
    encodeValue(value);
  } catch (cause) {
    // The value is larger than a holder may publish, or nested too deeply to be written as JSON.
    throw new StoreUnusableError(`A lease record has a value out of bounds: ${shorten(text)}`, {
      cause,
    });
  }
  const given = "value" in fields ? { value } : {};
  return { holderId, sessionId, attempt, ...given, ...readGrant(fields) };
}

/**
 * Like decodeRecord(), but a malformed record is undefined, not an error. Whether a resource is
 * held does not depend on its record.
 */
export function readRecord(text: string): LeaseRecord | undefined {
  try {
    return decodeRecord(text);
  } catch (error) {
    if (error instanceof StoreUnusableError) return undefined;
    throw error;
  }
}

/**
 * What a list or a watch shows of a record. One malformed record must not hide the other leases.
 */
export function shownRecord(text: string): Omit<LeaseRecord, "attempt"> {
  return readRecord(text) ?? { holderId: UNREADABLE_HOLDER, sessionId: "" };
}

/**
 * A token as a backend keeps it. A malformed one is an error in the stored data, not in the call.
 */
export function decodeToken(text: string): bigint {
  try {
    return parseToken(text);
  } catch (cause) {
    throw new StoreUnusableError(`The store keeps a token that is not one: ${shorten(text)}`, {
      cause,
    });
  }
}

/**
 * The revocation notices that a session finds, as pairs of resource and token. A malformed notice
 * names no lease and is skipped: it must not fail a renewal, because every lease of the session
 * depends on it.
 */
export function decodeNotices(
  pairs: Iterable<readonly [resource: unknown, token: unknown]>,
): { readonly resource: string; readonly token: bigint }[] {
  const notices: { resource: string; token: bigint }[] = [];
  for (const [resource, token] of pairs) {
    if (typeof resource !== "string" || typeof token !== "string") continue;
    try {
      notices.push({ resource, token: parseToken(token) });
    } catch {
      // Not a token.
    }
  }
  return notices;
}

/**
 * These fields are informative only, so a record in which they are malformed is read without them.
 */
function readGrant(fields: Record<string, unknown>): Pick<LeaseRecord, "grantedAtMs" | "bootId"> {
  const { grantedAtMs, bootId } = fields as { grantedAtMs: number; bootId: unknown };
  if (!Number.isSafeInteger(grantedAtMs)) return {};
  return { grantedAtMs, ...(typeof bootId === "string" ? { bootId } : {}) };
}

/**
 * The `heldForMs` of a view. At least 0: a clock can be set back, and the clocks of two machines
 * differ.
 */
export function heldForMs(
  { grantedAtMs }: Pick<LeaseRecord, "grantedAtMs">,
  nowMs: number,
): number | undefined {
  return grantedAtMs === undefined ? undefined : Math.max(0, nowMs - grantedAtMs);
}

/** The value as JSON text, or undefined if there is no value. Throws if JSON cannot express it. */
export function encodeValue(value: unknown): string | undefined {
  if (value === undefined) return undefined;
  let text: string | undefined;
  try {
    text = JSON.stringify(value);
  } catch (cause) {
    throw new InvalidArgumentError("`value` must be plain JSON (no cycles, no bigint).", { cause });
  }
  if (text === undefined)
    throw new InvalidArgumentError("`value` must be plain JSON, not a function or symbol.");
  const bytes = utf8Length(text);
  if (bytes > VALUE_BYTES_MAX) {
    throw new InvalidArgumentError(
      `\`value\` has ${bytes} bytes as JSON; at most ${VALUE_BYTES_MAX} are allowed.`,
    );
  }
  return text;
}

export function checkHolderId(holderId: unknown): string {
  if (
    typeof holderId !== "string" ||
    holderId === "" ||
    holderId.includes("\0") ||
    hasLoneSurrogate(holderId)
  ) {
    throw new InvalidArgumentError(
      "`holderId` must be a string that is not empty and has no NUL character and no half of a surrogate pair.",
    );
  }
  if (utf8Length(holderId) > HOLDER_BYTES_MAX) {
    throw new InvalidArgumentError(`\`holderId\` may have at most ${HOLDER_BYTES_MAX} bytes.`);
  }
  return holderId;
}

function unreadable(text: string): StoreUnusableError {
  return new StoreUnusableError(
    `A lease record lacks holderId, sessionId or attempt: ${shorten(text)}`,
  );
}

/** Not as JSON in every case: a value that is nested deeply enough cannot be written as such. */
function shownVersion(version: unknown): string {
  return typeof version === "number" || typeof version === "string"
    ? shorten(JSON.stringify(version))
    : `of type ${typeof version}`;
}

function shorten(text: string): string {
  return text.length > 80 ? `${text.slice(0, 80)}...` : text;
}
