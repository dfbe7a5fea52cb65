// What a node of ours says: the record of the holder behind the length of its session, since ZooKeeper tells nobody how
// long a session may live, and the notices that a revoker leaves in a session's node.

import { StoreUnusableError } from "../../core/errors.ts";
import {
  decodeNotices as decodePairs,
  decodeRecord,
  type LeaseRecord,
  UNREADABLE_HOLDER,
} from "../../core/record.ts";
import { formatToken } from "../../core/token.ts";
import type { LeaseRef } from "../contract.ts";

/** `record` is what encodeRecord() made. */
export function encodePlace(timeoutMs: number, record: string): string {
  return `${timeoutMs} ${record}`;
}

/** A session's length is a positive 32-bit number in the server's protocol. */
const TIMEOUT = /^[1-9][0-9]{0,9} /;

export function decodePlace(data: string): { timeoutMs: number; record: LeaseRecord } {
  const [time] = TIMEOUT.exec(data) ?? [];
  if (time === undefined) {
    throw new StoreUnusableError(`A lease's node does not begin with a time: ${data.slice(0, 80)}`);
  }
  return { timeoutMs: Number(time), record: decodeRecord(data.slice(time.length)) };
}

/** The same for lists and watches, which one malformed node must not end. */
export function shownPlace(data: string): ReturnType<typeof decodePlace> {
  try {
    return decodePlace(data);
  } catch (error) {
    if (!(error instanceof StoreUnusableError)) throw error;
    return { timeoutMs: 0, record: { holderId: UNREADABLE_HOLDER, sessionId: "", attempt: "" } };
  }
}

export function encodeNotices(notices: readonly LeaseRef[]): string {
  const rows = notices.map(({ resource, token }) => [resource, formatToken(token)]);
  return rows.length === 0 ? "" : JSON.stringify(rows);
}

/** Whatever is not a notice of ours is skipped. */
export function decodeNotices(data: string): LeaseRef[] {
  if (data === "") return [];
  let rows: unknown;
  try {
    rows = JSON.parse(data);
  } catch {
    return [];
  }
  const pairs = Array.isArray(rows) ? rows.map((row) => (Array.isArray(row) ? row : [])) : [];
  return decodePairs(pairs.map((row: readonly unknown[]) => [row[0], row[1]]));
}
