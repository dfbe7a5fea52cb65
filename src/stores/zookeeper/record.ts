// What the nodes of the store contain. A queue node contains the session timeout and the record of
// its holder, because ZooKeeper does not report the timeout of another session. A notices node
// contains one fact per line.

import { StoreUnusableError } from "../../core/errors.ts";
import { decodeRecord, type LeaseRecord, UNREADABLE_HOLDER } from "../../core/record.ts";
import { decodeFact, encodeFact, type Fact } from "../shared/facts.ts";

/** `record` is what encodeRecord() returned. */
export function encodeNode(timeoutMs: number, record: string): string {
  return `${timeoutMs} ${record}`;
}

/** A session timeout is a positive 32-bit number in the server's protocol. */
const TIMEOUT = /^[1-9][0-9]{0,9} /;

export function decodeNode(data: string): { timeoutMs: number; record: LeaseRecord } {
  const [time] = TIMEOUT.exec(data) ?? [];
  if (time === undefined) {
    throw new StoreUnusableError(
      `The node of a lease does not begin with a time: ${data.slice(0, 80)}`,
    );
  }
  return { timeoutMs: Number(time), record: decodeRecord(data.slice(time.length)) };
}

/** For lists and watches, which one malformed node must not end. */
export function shownNode(data: string): ReturnType<typeof decodeNode> {
  try {
    return decodeNode(data);
  } catch (error) {
    if (!(error instanceof StoreUnusableError)) throw error;
    return { timeoutMs: 0, record: { holderId: UNREADABLE_HOLDER, sessionId: "", attempt: "" } };
  }
}

/** A fact that another process reports to a session. */
export type Notice = Extract<Fact, { kind: "lost" | "wanted" }>;

export function encodeNotices(notices: readonly Notice[]): string {
  return notices.map(encodeFact).join("\n");
}

/** Skips malformed lines. */
export function decodeNotices(data: string): Notice[] {
  const facts = data.split("\n").map(decodeFact);
  return facts.filter((fact) => fact !== undefined && fact.kind !== "granted") as Notice[];
}

/** Identifies a notice. */
export function toKey({ kind, ref: { resource, token } }: Notice): string {
  return `${kind} ${token} ${resource}`;
}
