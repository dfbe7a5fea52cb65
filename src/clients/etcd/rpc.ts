// The requests of etcd that the store uses: path, message and answer of each. kv.ts encodes those
// of the key space. Field numbers are those of etcd's rpc.proto (3.4 and newer).

import {
  decodeHeader,
  decodeKeyValue,
  decodeRange,
  decodeTxn,
  encodeRange,
  encodeTxn,
  type Header,
  type KeyValue,
  type Range,
  type RangeAnswer,
  type Txn,
  type TxnAnswer,
} from "./kv.ts";
import { MalformedMessageError, Reader, Writer } from "./protobuf.ts";

/** One kind of request. */
export interface Rpc<Q, A> {
  /** The name of the request in error messages. */
  readonly name: string;
  readonly path: string;
  encode(request: Q): Buffer;
  decode(message: Uint8Array): A;
}

export interface LeaseAnswer {
  readonly header: Header;
  readonly id: bigint;
  /** In whole seconds. 0 or less: the lease does not exist. */
  readonly ttl: number;
  readonly grantedTtl: number;
}

interface WatchTarget {
  readonly id: bigint;
  readonly key: Uint8Array;
  readonly end?: Uint8Array | undefined;
  readonly from: bigint;
  /** Without events for keys that are written. */
  readonly deletionsOnly?: boolean | undefined;
}

export interface WatchEvent {
  readonly isDelete: boolean;
  readonly kv: KeyValue;
}

export interface WatchAnswer {
  readonly header: Header;
  readonly id: bigint;
  readonly created: boolean;
  readonly canceled: boolean;
  /** Above 0: the requested revision is no longer kept. This is the oldest that is. */
  readonly compactRevision: bigint;
  readonly events: readonly WatchEvent[];
}

export const range: Rpc<Range, RangeAnswer> = {
  name: "read",
  path: "/etcdserverpb.KV/Range",
  encode: encodeRange,
  decode: (message) => withRevision(decodeRange(new Reader(message))),
};

export const txn: Rpc<Txn, TxnAnswer> = {
  name: "transaction",
  path: "/etcdserverpb.KV/Txn",
  encode: encodeTxn,
  decode: (message) => withRevision(decodeTxn(new Reader(message))),
};

export const leaseGrant: Rpc<{ id: bigint; ttl: number }, LeaseAnswer> = {
  name: "opening of a lease",
  path: "/etcdserverpb.Lease/LeaseGrant",
  encode: ({ id, ttl }) =>
    written((writer) => {
      writer.int64(1, BigInt(ttl));
      writer.int64(2, id);
    }),
  decode: decodeLease,
};

export const leaseRevoke: Rpc<bigint, undefined> = {
  name: "end of a lease",
  path: "/etcdserverpb.Lease/LeaseRevoke",
  encode: (id) => written((writer) => writer.int64(1, id)),
  decode: () => undefined,
};

export const leaseTimeToLive: Rpc<bigint, LeaseAnswer> = {
  name: "query of the time of a lease",
  path: "/etcdserverpb.Lease/LeaseTimeToLive",
  encode: (id) => written((writer) => writer.int64(1, id)),
  decode: decodeLease,
};

/** A stream in etcd's definition. A stream of one message each way is the same as a call. */
export const leaseKeepAlive: Rpc<bigint, LeaseAnswer> = {
  name: "renewal of a lease",
  path: "/etcdserverpb.Lease/LeaseKeepAlive",
  encode: (id) => written((writer) => writer.int64(1, id)),
  decode: decodeLease,
};

export type WatchOrder = { readonly create: WatchTarget } | { readonly cancel: bigint };

/** A stream. Messages create and end watches, and answers name their watch. */
export const watch: Rpc<WatchOrder, WatchAnswer> = {
  name: "watch",
  path: "/etcdserverpb.Watch/Watch",
  encode: encodeWatch,
  decode: decodeWatch,
};

export const authenticate: Rpc<{ name: string; password: string }, string> = {
  name: "login",
  path: "/etcdserverpb.Auth/Authenticate",
  encode: ({ name, password }) =>
    written((writer) => {
      writer.text(1, name);
      writer.text(2, password);
    }),
  decode: (message) => textField(message, 2),
};

/** Answers with the version of the member that is asked. */
export const status: Rpc<undefined, string> = {
  name: "query of the version",
  path: "/etcdserverpb.Maintenance/Status",
  encode: () => Buffer.alloc(0),
  decode: (message) => textField(message, 2),
};

function written(write: (writer: Writer) => void): Buffer {
  const writer = new Writer();
  write(writer);
  return writer.finish();
}

/**
 * Every answer about keys names a revision, which may become a token. An empty message would look
 * like an answer that found nothing.
 */
function withRevision<A extends { readonly header: Header }>(answer: A): A {
  if (answer.header.revision > 0n) return answer;
  throw new MalformedMessageError("An answer of etcd names no revision.");
}

function textField(message: Uint8Array, field: number): string {
  const reader = new Reader(message);
  while (reader.next()) if (reader.field === field) return reader.text();
  return "";
}

function decodeLease(message: Uint8Array): LeaseAnswer {
  const answer = { header: { revision: 0n, term: 0n }, id: 0n, ttl: 0, grantedTtl: 0 };
  const reader = new Reader(message);
  while (reader.next()) {
    if (reader.field === 1) answer.header = decodeHeader(reader.message());
    else if (reader.field === 2) answer.id = reader.int64();
    else if (reader.field === 3) answer.ttl = Number(reader.int64());
    else if (reader.field === 4) answer.grantedTtl = Number(reader.int64());
  }
  return answer;
}

/** etcd's filter against events of writes. */
const NO_PUT = 0;

function encodeWatch(order: WatchOrder): Buffer {
  return written((writer) => {
    if ("cancel" in order) {
      writer.message(2, () => writer.int64(1, order.cancel));
      return;
    }
    const { id, key, end, from, deletionsOnly } = order.create;
    writer.message(1, () => {
      writer.bytes(1, key);
      if (end !== undefined) writer.bytes(2, end);
      writer.int64(3, from);
      if (deletionsOnly === true) writer.uint(5, NO_PUT);
      writer.int64(7, id);
    });
  });
}

function decodeWatch(message: Uint8Array): WatchAnswer {
  const events: WatchEvent[] = [];
  const answer = {
    header: { revision: 0n, term: 0n },
    id: 0n,
    created: false,
    canceled: false,
    compactRevision: 0n,
    events,
  };
  const reader = new Reader(message);
  while (reader.next()) {
    if (reader.field === 1) answer.header = decodeHeader(reader.message());
    else if (reader.field === 2) answer.id = reader.int64();
    else if (reader.field === 3) answer.created = reader.flag();
    else if (reader.field === 4) answer.canceled = reader.flag();
    else if (reader.field === 5) answer.compactRevision = reader.int64();
    else if (reader.field === 11) events.push(decodeEvent(reader.message()));
  }
  return answer;
}

function decodeEvent(reader: Reader): WatchEvent {
  let isDelete = false;
  let kv: KeyValue | undefined;
  while (reader.next()) {
    if (reader.field === 1) isDelete = reader.flag();
    else if (reader.field === 2) kv = decodeKeyValue(reader.message());
  }
  return { isDelete, kv: kv ?? decodeKeyValue(new Reader(Buffer.alloc(0))) };
}
