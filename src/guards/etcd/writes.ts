// Checks the writes of a guarded etcd transaction and converts them to etcd operations.

import { statusOf } from "../../clients/etcd/errors.ts";
import type { Op } from "../../clients/etcd/kv.ts";
import { type Names, spanBelow } from "../../clients/etcd/names.ts";
import { InvalidArgumentError } from "../../core/errors.ts";

/** A key or value of etcd. A text is encoded as UTF-8. */
export type EtcdBytes = string | Uint8Array;

/** One write of a guarded transaction: `put`, `delete` or `deletePrefix`. */
export type EtcdWrite =
  | {
      /** The key to write. */
      readonly put: EtcdBytes;
      /** Its new value. */
      readonly value: EtcdBytes;
      /**
       * The etcd lease that the key belongs to. The key is deleted when it ends. @default none: the
       * key stays
       */
      readonly leaseId?: bigint | undefined;
    }
  /** Deletes this key. A key that does not exist is not an error. */
  | { readonly delete: EtcdBytes }
  /** Deletes every key with this prefix. */
  | { readonly deletePrefix: EtcdBytes };

export function toOps(writes: unknown, names: Names): Op[] {
  if (!Array.isArray(writes) || writes.length === 0) {
    throw new InvalidArgumentError(
      'A guarded write needs a list with at least one of { put, value }, { delete } and { deletePrefix }, e.g. [{ put: "limit", value: "10" }].',
    );
  }
  return writes.map((write: unknown, index) => {
    const op = toOp(write, index);
    if (touches(op, names.all)) {
      throw new InvalidArgumentError(
        `Write ${index + 1} touches the keys below "${names.prefix}", where Tenure keeps leases and highest tokens. Nothing was written. Use keys of your own.`,
      );
    }
    return op;
  });
}

function toOp(write: unknown, index: number): Op {
  const given = (typeof write === "object" && write !== null ? write : {}) as Record<
    string,
    unknown
  >;
  const kinds = ["put", "delete", "deletePrefix"].filter((kind) => given[kind] !== undefined);
  if (kinds.length !== 1) {
    throw new InvalidArgumentError(
      `Write ${index + 1} must have exactly one of put, delete and deletePrefix, got ${kinds.length}.`,
    );
  }
  if (given.deletePrefix !== undefined) {
    return { remove: spanBelow(toBytes(given.deletePrefix, "key", index)) };
  }
  if (given.delete !== undefined) return { remove: { key: toBytes(given.delete, "key", index) } };
  const { leaseId = 0n } = given;
  if (typeof leaseId !== "bigint" || leaseId < 0n || leaseId >= 2n ** 63n) {
    throw new InvalidArgumentError(
      `\`leaseId\` of write ${index + 1} must be a bigint from 0 to 2^63: the id of a lease of etcd.`,
    );
  }
  const key = toBytes(given.put, "key", index);
  return { put: { key, value: toBytes(given.value, "value", index), lease: leaseId } };
}

function toBytes(given: unknown, what: "key" | "value", index: number): Buffer {
  const bytes =
    typeof given === "string" || given instanceof Uint8Array ? Buffer.from(given) : undefined;
  if (bytes !== undefined && (what === "value" || bytes.length > 0)) return bytes;
  throw new InvalidArgumentError(
    `The ${what} of write ${index + 1} must be a text or bytes${what === "key" ? ", and not empty" : ""}.`,
  );
}

function touches(op: Op, own: { readonly key: Buffer; readonly end: Buffer }): boolean {
  const { key, end } =
    "put" in op
      ? { key: op.put.key, end: undefined }
      : (op as { remove: { key: Uint8Array; end?: Uint8Array } }).remove;
  if (end === undefined) return own.key.compare(key) <= 0 && own.end.compare(key) > 0;
  const isEndless = end.length === 1 && end[0] === 0;
  return own.end.compare(key) > 0 && (isEndless || own.key.compare(end) < 0);
}

const REFUSALS: readonly (readonly [pattern: RegExp, advice: string])[] = [
  [/duplicate key/, "A key may be written once in one step: leave one of the writes out"],
  [/too many operations/, "Split it, or raise --max-txn-ops of etcd (128 by default)"],
  [
    /too large|larger than max/,
    "Split it, or raise --max-request-bytes of etcd (1.5 MiB by default)",
  ],
  [/requested lease not found/, "The etcd lease named by `leaseId` has ended"],
];

/** Whether etcd rejected the writes themselves. */
export function isWriteError(error: unknown): boolean {
  const details = statusOf(error)?.details ?? "";
  return REFUSALS.some(([pattern]) => pattern.test(details));
}

export function explainWriteError(error: unknown, resource: string): unknown {
  const details = statusOf(error)?.details ?? "";
  const [, advice] = REFUSALS.find(([pattern]) => pattern.test(details)) ?? [];
  if (advice === undefined) return error;
  return new InvalidArgumentError(
    `etcd refused the writes (${details}). Nothing was written. ${advice}.`,
    { resource, cause: error },
  );
}
