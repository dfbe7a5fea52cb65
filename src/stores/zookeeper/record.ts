// What a node of ours says: the record of the holder behind the length of its session, since ZooKeeper tells nobody how
// long a session may live, and the notices that a revoker leaves in a session's node.

import { InvalidArgumentError, StoreUnusableError } from "../../core/errors.ts";
import { decodeRecord, type LeaseRecord } from "../../core/record.ts";
import { formatToken, parseToken } from "../../core/token.ts";
import type { LeaseRef } from "../contract.ts";

/** `record` is what encodeRecord() made. */
export function encodePlace(timeoutMs: number, record: string): string {
  return `${timeoutMs} ${record}`;
}

export function decodePlace(data: string): { timeoutMs: number; record: LeaseRecord } {
  const gap = data.indexOf(" ");
  const timeoutMs = Number(data.slice(0, gap));
  if (gap < 1 || !(timeoutMs > 0)) {
    throw new StoreUnusableError(`A lease's node does not begin with a time: ${data.slice(0, 80)}`);
  }
  return { timeoutMs, record: decodeRecord(data.slice(gap + 1)) };
}

export function encodeNotices(notices: readonly LeaseRef[]): string {
  const rows = notices.map(({ resource, token }) => [resource, formatToken(token)]);
  return rows.length === 0 ? "" : JSON.stringify(rows);
}

/** Whatever is not a notice of ours is no notice: a stranger's words must not end a renewal. */
export function decodeNotices(data: string): LeaseRef[] {
  if (data === "") return [];
  let rows: unknown;
  try {
    rows = JSON.parse(data);
  } catch {
    return [];
  }
  return Array.isArray(rows) ? rows.flatMap(noticeOf) : [];
}

function noticeOf(row: unknown): LeaseRef[] {
  const [resource, token] = Array.isArray(row) ? (row as unknown[]) : [];
  if (typeof resource !== "string" || typeof token !== "string") return [];
  try {
    return [{ resource, token: parseToken(token) }];
  } catch (error) {
    if (error instanceof InvalidArgumentError) return [];
    throw error;
  }
}
