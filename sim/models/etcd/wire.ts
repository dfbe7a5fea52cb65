// The server's side of etcd's messages: reads requests and writes answers. The store's own code
// does the other half, so a mistake in either one shows. Field numbers are those of etcd's
// rpc.proto.

import type { Compare, KeyValue, Op, Range, Txn } from "../../../src/clients/etcd/kv.ts";
import { Reader, Writer } from "../../../src/clients/etcd/protobuf.ts";
import type { WatchEvent, WatchOrder } from "../../../src/clients/etcd/rpc.ts";
import type { KeySpace, TxnResult } from "./key-space.ts";

type Head = Pick<KeySpace, "revision" | "term">;

export function readRange(reader: Reader): Range {
  const range: { -readonly [Name in keyof Range]: Range[Name] } = { key: Buffer.alloc(0) };
  while (reader.next()) {
    if (reader.field === 1) range.key = reader.bytes();
    else if (reader.field === 2) range.end = reader.bytes();
    else if (reader.field === 3) range.limit = Number(reader.int64());
    else if (reader.field === 6) range.oldestFirst = reader.int64() === 2n;
    else if (reader.field === 8) range.keysOnly = reader.flag();
  }
  return range;
}

export function readTxn(reader: Reader): Txn {
  const [when, yes, no]: [Compare[], Op[], Op[]] = [[], [], []];
  while (reader.next()) {
    if (reader.field === 1) when.push(readCompare(reader.message()));
    else if (reader.field === 2) yes.push(readOp(reader.message()));
    else if (reader.field === 3) no.push(readOp(reader.message()));
  }
  return { when, yes, no };
}

function readCompare(reader: Reader): Compare {
  let [result, target, than] = [0n, 0n, 0n];
  let [key, value]: [Buffer, Buffer] = [Buffer.alloc(0), Buffer.alloc(0)];
  let end: Buffer | undefined;
  while (reader.next()) {
    if (reader.field === 1) result = reader.int64();
    else if (reader.field === 2) target = reader.int64();
    else if (reader.field === 3) key = reader.bytes();
    else if (reader.field === 5) than = reader.int64();
    else if (reader.field === 7) value = reader.bytes();
    else if (reader.field === 64) end = reader.bytes();
  }
  if (target === 3n) return { key, end, target: "value", is: "=", than: value };
  return { key, end, target: "create", is: result === 1n ? ">" : result === 2n ? "<" : "=", than };
}

function readOp(reader: Reader): Op {
  while (reader.next()) {
    if (reader.field === 1) return { get: readRange(reader.message()) };
    if (reader.field === 2) return readPut(reader.message());
    if (reader.field === 4) return { txn: readTxn(reader.message()) };
    const { key, end } = readRange(reader.message());
    return { remove: end === undefined ? { key } : { key, end } };
  }
  throw new Error("An operation is empty.");
}

function readPut(reader: Reader): Op {
  const put: { key: Buffer; value: Buffer; lease: bigint } = {
    key: Buffer.alloc(0),
    value: Buffer.alloc(0),
    lease: 0n,
  };
  while (reader.next()) {
    if (reader.field === 1) put.key = reader.bytes();
    else if (reader.field === 2) put.value = reader.bytes();
    else if (reader.field === 3) put.lease = reader.int64();
  }
  return { put };
}

/** Reads fields 1 and 2, which requests about leases use. */
export function readNumbers(message: Uint8Array): readonly [bigint, bigint] {
  const reader = new Reader(message);
  let [one, two] = [0n, 0n];
  while (reader.next()) {
    if (reader.field === 1) one = reader.int64();
    else if (reader.field === 2) two = reader.int64();
  }
  return [one, two];
}

export function readWatch(message: Uint8Array): WatchOrder {
  const reader = new Reader(message);
  let order: WatchOrder | undefined;
  while (reader.next()) {
    const inner = reader.message();
    order = reader.field === 1 ? { create: readTarget(inner) } : { cancel: readCancel(inner) };
  }
  if (order === undefined) throw new Error("A watch request is empty.");
  return order;
}

function readTarget(reader: Reader): Extract<WatchOrder, { create: unknown }>["create"] {
  let [from, id] = [0n, 0n];
  let key: Buffer = Buffer.alloc(0);
  let end: Buffer | undefined;
  let deletionsOnly = false;
  while (reader.next()) {
    if (reader.field === 1) key = reader.bytes();
    else if (reader.field === 2) end = reader.bytes();
    else if (reader.field === 3) from = reader.int64();
    else if (reader.field === 5) deletionsOnly = reader.int64() === 0n;
    else if (reader.field === 7) id = reader.int64();
  }
  return { key, end, from, id, deletionsOnly };
}

function readCancel(reader: Reader): bigint {
  while (reader.next()) if (reader.field === 1) return reader.int64();
  return 0n;
}

export function writeRangeAnswer(
  head: Head,
  { kvs, more }: { readonly kvs: readonly KeyValue[]; readonly more: boolean },
): Buffer {
  return written((writer) => {
    writeHead(writer, head);
    writeKvs(writer, kvs);
    writer.flag(3, more);
  });
}

export function writeTxnAnswer(head: Head, result: TxnResult): Buffer {
  return written((writer) => writeTxn(writer, head, result));
}

export function writeLeaseAnswer(
  head: Head,
  {
    id,
    ttl,
    grantedTtl,
  }: { readonly id: bigint; readonly ttl: number; readonly grantedTtl?: number },
): Buffer {
  return written((writer) => {
    writeHead(writer, head);
    writer.int64(2, id);
    writer.int64(3, BigInt(ttl));
    if (grantedTtl !== undefined) writer.int64(4, BigInt(grantedTtl));
  });
}

export function writeStatus(head: Head): Buffer {
  return written((writer) => {
    writeHead(writer, head);
    writer.text(2, "3.5.17");
  });
}

export function writeWatchAnswer(
  head: Head,
  id: bigint,
  answer: { readonly created: boolean; readonly events: readonly WatchEvent[] },
): Buffer {
  return written((writer) => {
    writeHead(writer, head);
    writer.int64(2, id);
    writer.flag(3, answer.created);
    for (const { isDelete, kv } of answer.events) {
      writer.message(11, () => {
        writer.flag(1, isDelete);
        writer.message(2, () => writeKv(writer, kv));
      });
    }
  });
}

function writeTxn(writer: Writer, head: Head, result: TxnResult): void {
  writeHead(writer, head);
  writer.flag(2, result.succeeded);
  for (const answer of result.answers) {
    writer.message(3, () => {
      if (answer === "done") writer.message(2, () => undefined);
      else if ("txn" in answer) writer.message(4, () => writeTxn(writer, head, answer.txn));
      else writer.message(1, () => writeKvs(writer, answer.kvs));
    });
  }
}

function writeHead(writer: Writer, { revision, term }: Head): void {
  writer.message(1, () => {
    writer.int64(3, revision);
    writer.int64(4, term);
  });
}

function writeKvs(writer: Writer, kvs: readonly KeyValue[]): void {
  for (const kv of kvs) writer.message(2, () => writeKv(writer, kv));
}

function writeKv(writer: Writer, kv: KeyValue): void {
  writer.bytes(1, kv.key);
  writer.int64(2, kv.createRevision);
  writer.int64(3, kv.modRevision);
  writer.bytes(5, kv.value);
  writer.int64(6, kv.lease);
}

function written(write: (writer: Writer) => void): Buffer {
  const writer = new Writer();
  write(writer);
  return writer.finish();
}
