// Transactions and reads of etcd's key space, and their encoding. Field numbers are those of etcd's
// rpc.proto and kv.proto (3.4 and newer).

import { type Reader, Writer } from "./protobuf.ts";

export interface KeyValue {
  readonly key: Buffer;
  readonly value: Buffer;
  readonly createRevision: bigint;
  readonly modRevision: bigint;
  readonly lease: bigint;
}

/** What every answer says about the member that sent it. */
export interface Header {
  readonly revision: bigint;
  /** The term of the newest entry that the member had applied. */
  readonly term: bigint;
}

export interface Range {
  readonly key: Uint8Array;
  /** All keys from `key` up to this one, exclusive. Absent: only `key`. */
  readonly end?: Uint8Array | undefined;
  readonly limit?: number | undefined;
  /** Ordered by create revision instead of by key. */
  readonly oldestFirst?: boolean | undefined;
  /** The state at this revision. Absent: the current one. */
  readonly revision?: bigint | undefined;
  readonly keysOnly?: boolean | undefined;
  /** What the member has, which may be old. Otherwise a majority confirms it. */
  readonly serializable?: boolean | undefined;
}

export interface RangeAnswer {
  readonly header: Header;
  readonly kvs: readonly KeyValue[];
  readonly more: boolean;
}

export type Compare = {
  readonly key: Uint8Array;
  /**
   * Compares every key from `key` up to this one, exclusive. In an empty range, compares a key
   * that was never created.
   */
  readonly end?: Uint8Array | undefined;
} & (
  | { readonly target: "create"; readonly is: "=" | ">" | "<"; readonly than: bigint }
  | { readonly target: "value"; readonly is: "="; readonly than: Uint8Array }
);

export type Op =
  | { readonly get: Range }
  | {
      readonly put: {
        readonly key: Uint8Array;
        readonly value: Uint8Array;
        readonly lease: bigint;
      };
    }
  | { readonly remove: { readonly key: Uint8Array; readonly end?: Uint8Array } }
  | { readonly txn: Txn };

export interface Txn {
  readonly when: readonly Compare[];
  readonly yes: readonly Op[];
  readonly no: readonly Op[];
}

export interface TxnAnswer {
  readonly header: Header;
  readonly succeeded: boolean;
  /** One for each operation of the branch that was applied. */
  readonly answers: readonly OpAnswer[];
}

interface OpAnswer {
  /** What a `get` found. */
  readonly kvs: readonly KeyValue[];
  readonly txn: TxnAnswer | undefined;
}

const NO_HEADER: Header = { revision: 0n, term: 0n };
const ASCENDING = 1;
const BY_CREATE_REVISION = 2;
const RESULTS = { "=": 0, ">": 1, "<": 2 } as const;
const TARGET_FIELDS = { create: [1, 5], value: [3, 7] } as const;

export function encodeRange(range: Range): Buffer {
  const writer = new Writer();
  writeRange(writer, range);
  return writer.finish();
}

export function encodeTxn(txn: Txn): Buffer {
  const writer = new Writer();
  writeTxn(writer, txn);
  return writer.finish();
}

export function decodeRange(reader: Reader): RangeAnswer {
  let header = NO_HEADER;
  const kvs: KeyValue[] = [];
  let more = false;
  while (reader.next()) {
    if (reader.field === 1) header = decodeHeader(reader.message());
    else if (reader.field === 2) kvs.push(decodeKeyValue(reader.message()));
    else if (reader.field === 3) more = reader.flag();
  }
  return { header, kvs, more };
}

export function decodeTxn(reader: Reader): TxnAnswer {
  let header = NO_HEADER;
  let succeeded = false;
  const answers: OpAnswer[] = [];
  while (reader.next()) {
    if (reader.field === 1) header = decodeHeader(reader.message());
    else if (reader.field === 2) succeeded = reader.flag();
    else if (reader.field === 3) answers.push(decodeOpAnswer(reader.message()));
  }
  return { header, succeeded, answers };
}

export function decodeHeader(reader: Reader): Header {
  let { revision, term } = NO_HEADER;
  while (reader.next()) {
    if (reader.field === 3) revision = reader.int64();
    else if (reader.field === 4) term = reader.int64();
  }
  return { revision, term };
}

export function decodeKeyValue(reader: Reader): KeyValue {
  const kv = { key: EMPTY, value: EMPTY, createRevision: 0n, modRevision: 0n, lease: 0n };
  while (reader.next()) {
    if (reader.field === 1) kv.key = reader.bytes();
    else if (reader.field === 2) kv.createRevision = reader.int64();
    else if (reader.field === 3) kv.modRevision = reader.int64();
    else if (reader.field === 5) kv.value = reader.bytes();
    else if (reader.field === 6) kv.lease = reader.int64();
  }
  return kv;
}

const EMPTY: Buffer = Buffer.alloc(0);

function writeRange(writer: Writer, range: Range): void {
  writer.bytes(1, range.key);
  if (range.end !== undefined) writer.bytes(2, range.end);
  if (range.limit !== undefined) writer.uint(3, range.limit);
  if (range.revision !== undefined) writer.int64(4, range.revision);
  if (range.oldestFirst === true) {
    writer.uint(5, ASCENDING);
    writer.uint(6, BY_CREATE_REVISION);
  }
  writer.flag(7, range.serializable);
  writer.flag(8, range.keysOnly);
}

function writeTxn(writer: Writer, txn: Txn): void {
  for (const compare of txn.when) writer.message(1, () => writeCompare(writer, compare));
  for (const op of txn.yes) writer.message(2, () => writeOp(writer, op));
  for (const op of txn.no) writer.message(3, () => writeOp(writer, op));
}

function writeCompare(writer: Writer, compare: Compare): void {
  const [target, operand] = TARGET_FIELDS[compare.target];
  writer.uint(1, RESULTS[compare.is]);
  writer.uint(2, target);
  writer.bytes(3, compare.key);
  if (compare.target === "value") writer.bytes(operand, compare.than);
  else writer.int64(operand, compare.than);
  if (compare.end !== undefined) writer.bytes(64, compare.end);
}

function writeOp(writer: Writer, op: Op): void {
  if ("get" in op) {
    writer.message(1, () => writeRange(writer, op.get));
  } else if ("put" in op) {
    writer.message(2, () => {
      writer.bytes(1, op.put.key);
      writer.bytes(2, op.put.value);
      writer.int64(3, op.put.lease);
    });
  } else if ("remove" in op) {
    writer.message(3, () => {
      writer.bytes(1, op.remove.key);
      if (op.remove.end !== undefined) writer.bytes(2, op.remove.end);
    });
  } else {
    writer.message(4, () => writeTxn(writer, op.txn));
  }
}

function decodeOpAnswer(reader: Reader): OpAnswer {
  let kvs: readonly KeyValue[] = [];
  let txn: TxnAnswer | undefined;
  while (reader.next()) {
    if (reader.field === 1) kvs = decodeRange(reader.message()).kvs;
    else if (reader.field === 4) txn = decodeTxn(reader.message());
  }
  return { kvs, txn };
}
