// Decides which attempt holds a resource, as etcd transactions. Every attempt has a key in the
// queue of its resource, on the etcd lease of its session. The oldest key holds the resource, and
// its create revision is the token. So deleting a key hands the resource off, whatever deletes it:
// a release, a revocation, the end of a session or its expiry.
//
// The store sends a request again if its answer does not come. A late copy is harmless while the
// attempt has a key. To make it harmless afterwards too, the transaction that deletes the key of
// such an attempt leaves a mark, and no attempt with a mark enters the queue.

import type { Compare, KeyValue, Op, Range, Txn, TxnAnswer } from "../../clients/etcd/kv.ts";
import type { Names, Span } from "../../clients/etcd/names.ts";
import { readRecord, UNREADABLE_HOLDER } from "../../core/record.ts";
import type { AttemptRequest, RevokeRequest } from "../contract.ts";
import type { Attempt, Session } from "./session.ts";

/**
 * How many keys of a queue are read at a time. The oldest of them can be followed without a read.
 */
export const QUEUE_READ_MAX = 100;

/** The first keys of the queue, the oldest first. */
export function readQueue({ key, end }: Span): Range {
  return { key, end, oldestFirst: true, limit: QUEUE_READ_MAX, keysOnly: true };
}

export function readHolder({ key, end }: Span): Range {
  return { key, end, oldestFirst: true, limit: 1 };
}

/**
 * Enters the queue. If the queue is empty, the attempt holds the resource at once. `released`: the
 * token of a lease that the same message releases before. Its key does not count.
 */
export function grantTxn(
  names: Names,
  attempt: Attempt,
  options: {
    readonly queue: boolean;
    readonly wallMs: number;
    readonly released: bigint | undefined;
  },
): Txn {
  const { session, resource, id, rank, record } = attempt;
  const { lease } = session.names;
  const own = names.attempt(resource, id);
  const key = names.queueKey({ resource, attempt: id, rank });
  const queue = names.queue(resource);
  const than = (options.released ?? 0n) + 1n;
  const isFree: Compare = { key: queue.key, end: queue.end, target: "create", is: "<", than };
  const granted = Buffer.from(withGrantTime(record, options.wallMs));
  // An attempt that was granted before is not granted again: it still holds, or has ended.
  const isNew = attempt.state !== "held";
  const otherwise: Op[] = [{ get: { ...own, keysOnly: true } }, { get: readHolder(queue) }];
  if (options.queue) otherwise.push({ get: readQueue(queue) });
  if (options.queue && isNew) {
    const put: Op = { put: { key, value: Buffer.from(record), lease } };
    otherwise.unshift({ txn: { when: [isAbsent(own)], yes: [put], no: [] } });
  }
  const enter: Txn = {
    when: isNew ? [isFree] : [isFree, exists(own)],
    yes: [{ put: { key, value: granted, lease } }],
    no: otherwise,
  };
  return {
    when: [exists(session.names.key), isAbsent(session.names.mark(id))],
    yes: [{ txn: enter }],
    no: [{ get: { key: session.names.key, keysOnly: true } }],
  };
}

/** What the answer to a grant says. */
export interface GrantAnswer {
  /** `granted`: by this very request. `marked`: the attempt has ended. */
  readonly kind: "granted" | "entered" | "marked" | "gone";
  /** The attempt's own key. */
  readonly own?: Pick<KeyValue, "key" | "createRevision"> | undefined;
  /** The attempt's own key is the oldest. */
  readonly isOldest: boolean;
  readonly holderId?: string | undefined;
  readonly queue: readonly KeyValue[];
}

export function readGrantAnswer(names: Names, attempt: Attempt, answer: TxnAnswer): GrantAnswer {
  const [first] = answer.answers;
  if (!answer.succeeded) {
    const kind = first?.kvs[0] === undefined ? "gone" : "marked";
    return { kind, isOldest: false, queue: [] };
  }
  if (first?.txn?.succeeded === true) {
    const { resource, id, rank } = attempt;
    const key = names.queueKey({ resource, attempt: id, rank });
    const own = { key, createRevision: answer.header.revision };
    return { kind: "granted", own, isOldest: true, queue: [] };
  }
  const found = first?.txn?.answers.filter(({ txn }) => txn === undefined) ?? [];
  const [[own] = [], [holder] = [], queue = []] = found.map(({ kvs }) => kvs);
  return {
    kind: "entered",
    own,
    isOldest: own !== undefined && holder?.key.equals(own.key) === true,
    holderId: holder && (readRecord(holder.value.toString())?.holderId ?? UNREADABLE_HOLDER),
    queue,
  };
}

/** Deletes the key of a lease. The failure branch finds out why the lease is not held. */
export function releaseTxn(names: Names, attempt: Attempt, preferred: string | undefined): Txn {
  const { session, resource, key, revision, rank } = attempt;
  const note = names.preferred(resource);
  const { lease } = session.names;
  const yes: Op[] = [{ remove: { key } }, ...farewell(attempt)];
  if (preferred !== undefined)
    yes.push({ put: { key: note, value: Buffer.from(preferred), lease } });
  else if (rank !== undefined) yes.push({ remove: { key: note } });
  return {
    when: [hasRevision(key, revision)],
    yes,
    no: [
      { get: { key: session.names.key, keysOnly: true } },
      { get: { key: session.names.revoked(resource) } },
    ],
  };
}

/** Whether a release that changed nothing can only be a copy of one that did. */
export function wasReleasedBefore({ answers }: TxnAnswer, token: bigint): boolean {
  const [session, revoked] = answers.map(({ kvs }) => kvs[0]);
  return session !== undefined && revoked?.value.toString() !== String(token);
}

/** Deletes the key of an attempt, whether it waits or holds. */
export function withdrawTxn(names: Names, session: Session, request: AttemptRequest): Txn {
  const { resource, attempt: id } = request;
  const remove: Op = { remove: names.attempt(resource, id) };
  const attempt = session.attempts.get(id);
  const yes = attempt === undefined ? [remove] : [remove, ...farewell(attempt)];
  return { when: [exists(session.names.key)], yes, no: [] };
}

/**
 * Deletes the key of the holder. Leaves a note for its session, and a mark, because the answer to
 * the request of the holder may have been lost.
 */
export function revokeTxn(names: Names, holder: KeyValue, { resource, token }: RevokeRequest): Txn {
  const { key, lease } = holder;
  const session = names.sessionOfLease(lease);
  const note = session.revoked(resource);
  const mark = session.mark(names.readQueueKey(key)?.attempt ?? "");
  const notify: Op[] = [
    { put: { key: note, value: Buffer.from(String(token)), lease } },
    { put: { key: mark, value: Buffer.alloc(0), lease } },
  ];
  return {
    when: [hasRevision(key, token)],
    // A key without a lease was written by another program, which has no session.
    yes: [{ remove: { key } }, ...(lease === 0n ? [] : notify)],
    no: [{ get: { key: note } }],
  };
}

/**
 * Leaves a note for the session of the holder that this attempt waits. The note is on the etcd
 * lease of the waiter, and disappears with its session.
 */
export function wantTxn(names: Names, attempt: Attempt, holder: Omit<KeyValue, "value">): Txn {
  const { session, resource, key, revision, note: former } = attempt;
  const note = names.sessionOfLease(holder.lease).wanted(resource);
  const value = Buffer.from(String(holder.createRevision));
  const yes: Op[] = [{ put: { key: note, value, lease: session.names.lease } }];
  if (former !== undefined && !former.equals(note)) yes.push({ remove: { key: former } });
  attempt.note = note;
  return {
    when: [hasRevision(holder.key, holder.createRevision), hasRevision(key, revision)],
    yes,
    no: [],
  };
}

/** Moves a ranked attempt to the end of the queue. It keeps its place among those of its rank. */
export function moveTxn(names: Names, attempt: Attempt): Txn {
  const { session, resource, id, rank, key, revision, record } = attempt;
  const since = names.readQueueKey(key)?.since ?? revision;
  // The revision makes the name new, because it may not be the first move.
  const next = names.queueKey({ resource, attempt: id, rank, since, moved: revision });
  return {
    when: [hasRevision(key, revision)],
    yes: [
      { remove: { key } },
      { put: { key: next, value: Buffer.from(record), lease: session.names.lease } },
    ],
    no: [],
  };
}

/** Writes the time of the grant into the record of a lease that was handed off. */
export function stampTxn({ session, key, revision, record }: Attempt, wallMs: number): Txn {
  const value = Buffer.from(withGrantTime(record, wallMs));
  return {
    when: [hasRevision(key, revision)],
    yes: [{ put: { key, value, lease: session.names.lease } }],
    no: [],
  };
}

/**
 * What is left to do when the attempt ends: removes its note, and leaves a mark if it is in doubt.
 */
function farewell({ session, id, note, unanswered }: Attempt): Op[] {
  const ops: Op[] = note === undefined ? [] : [{ remove: { key: note } }];
  if (unanswered === 0) return ops;
  const { lease, mark } = session.names;
  ops.push({ put: { key: mark(id), value: Buffer.alloc(0), lease } });
  const former = session.addMark(id);
  if (former !== undefined) ops.push({ remove: { key: mark(former) } });
  return ops;
}

/** The record with the time of the grant, which is its last field. */
function withGrantTime(record: string, wallMs: number): string {
  return `${record.slice(0, -1)},"grantedAtMs":${Math.round(wallMs)}}`;
}

function exists(key: Uint8Array | Span): Compare {
  return { ...toSpan(key), target: "create", is: ">", than: 0n };
}

function isAbsent(key: Uint8Array | Span): Compare {
  return { ...toSpan(key), target: "create", is: "=", than: 0n };
}

function toSpan(key: Uint8Array | Span): { readonly key: Uint8Array; readonly end?: Uint8Array } {
  return key instanceof Uint8Array ? { key } : key;
}

function hasRevision(key: Uint8Array, revision: bigint): Compare {
  return { key, target: "create", is: "=", than: revision };
}
