// Simulates etcd's key space as far as the store uses it: revisions, transactions, leases and the
// history that watches are served from. Ids, revisions and seconds are those of etcd. This file
// knows neither network nor bytes.

import type { Compare, KeyValue, Op, Range, Txn } from "../../../src/clients/etcd/kv.ts";
import type { WatchEvent } from "../../../src/clients/etcd/rpc.ts";
import { EtcdStatusError } from "../../../src/clients/etcd/transport.ts";

export interface TxnResult {
  readonly succeeded: boolean;
  readonly answers: readonly OpResult[];
}

type OpResult =
  | { readonly kvs: readonly KeyValue[]; readonly more: boolean }
  | { readonly txn: TxnResult }
  | "done";

interface EtcdLease {
  readonly id: bigint;
  readonly ttl: number;
  expiresAt: number;
  readonly keys: Set<string>;
}

/** The events of one revision. */
export interface Commit {
  readonly revision: bigint;
  readonly events: readonly WatchEvent[];
}

/**
 * etcd's minimum: by default an election takes up to one second, and a lease lasts at least one and
 * a half times that, rounded up.
 */
const TTL_MIN_S = 2;
const NOT_FOUND = 5;
const FAILED_PRECONDITION = 9;

export class KeySpace {
  revision = 1n;
  term = 2n;
  readonly #keys = new Map<string, KeyValue>();
  readonly #leases = new Map<bigint, EtcdLease>();
  readonly #history: Commit[] = [];
  readonly #now: () => number;
  readonly #onCommit: (commit: Commit, why: Why) => void;
  #pending: WatchEvent[] = [];

  constructor(now: () => number, onCommit: (commit: Commit, why: Why) => void) {
    this.#now = now;
    this.#onCommit = onCommit;
  }

  range({ key, end, limit, keysOnly, oldestFirst }: Range): { kvs: KeyValue[]; more: boolean } {
    const found = this.#between(key, end);
    if (oldestFirst) found.sort((a, b) => Number(a.createRevision - b.createRevision));
    const most = limit === undefined || limit === 0 ? found.length : limit;
    const kvs = found.slice(0, most);
    return {
      kvs: keysOnly === true ? kvs.map((kv) => ({ ...kv, value: Buffer.alloc(0) })) : kvs,
      more: found.length > most,
    };
  }

  /** Applies all operations or none. A missing lease rejects the whole transaction. */
  txn(txn: Txn): TxnResult {
    this.#refuseMissingLeases(txn);
    const result = this.#apply(txn);
    this.#commit("txn");
    return result;
  }

  grantLease(id: bigint, asked: number): EtcdLease {
    if (this.#leases.has(id))
      throw new EtcdStatusError(FAILED_PRECONDITION, "etcdserver: lease already exists");
    const ttl = Math.max(TTL_MIN_S, asked);
    const lease = { id, ttl, expiresAt: this.#now() + ttl * 1_000, keys: new Set<string>() };
    this.#leases.set(id, lease);
    return lease;
  }

  lease(id: bigint): EtcdLease | undefined {
    return this.#leases.get(id);
  }

  /**
   * Renews from the leader's memory. A lease that has expired but is not yet removed is not
   * revived.
   */
  keepAlive(id: bigint): EtcdLease | undefined {
    const lease = this.#leases.get(id);
    if (lease === undefined || lease.expiresAt <= this.#now()) return undefined;
    lease.expiresAt = this.#now() + lease.ttl * 1_000;
    return lease;
  }

  revokeLease(id: bigint, why: Why): void {
    const lease = this.#leases.get(id);
    if (lease === undefined)
      throw new EtcdStatusError(NOT_FOUND, "etcdserver: requested lease not found");
    this.#leases.delete(id);
    for (const name of lease.keys) this.#remove(name);
    this.#commit(why);
  }

  /** Removes expired leases, as etcd's lessor does every half second. */
  expire(): void {
    for (const { id, expiresAt } of [...this.#leases.values()])
      if (expiresAt <= this.#now()) this.revokeLease(id, "expired");
  }

  /** Elects a new leader. It knows of no renewals, so every lease starts its full ttl again. */
  elect(): EtcdLease[] {
    this.term += 1n;
    for (const lease of this.#leases.values()) lease.expiresAt = this.#now() + lease.ttl * 1_000;
    return [...this.#leases.values()];
  }

  since(revision: bigint): Commit[] {
    return this.#history.filter((commit) => commit.revision >= revision);
  }

  #apply(txn: Txn): TxnResult {
    const succeeded = txn.when.every((compare) => this.#holds(compare));
    const ops = succeeded ? txn.yes : txn.no;
    return { succeeded, answers: ops.map((op) => this.#do(op)) };
  }

  #do(op: Op): OpResult {
    if ("get" in op) return this.range(op.get);
    if ("txn" in op) return { txn: this.#apply(op.txn) };
    if ("put" in op) this.#put(op.put);
    else
      for (const { key } of this.#between(op.remove.key, op.remove.end)) this.#remove(toName(key));
    return "done";
  }

  #put({ key, value, lease }: { key: Uint8Array; value: Uint8Array; lease: bigint }): void {
    const name = toName(key);
    const modRevision = this.revision + 1n;
    const before = this.#keys.get(name);
    if (before !== undefined) this.#leases.get(before.lease)?.keys.delete(name);
    const kv: KeyValue = {
      key: Buffer.from(key),
      value: Buffer.from(value),
      lease,
      modRevision,
      createRevision: before?.createRevision ?? modRevision,
    };
    this.#keys.set(name, kv);
    this.#leases.get(lease)?.keys.add(name);
    this.#pending.push({ isDelete: false, kv });
  }

  #remove(name: string): void {
    const kv = this.#keys.get(name);
    if (kv === undefined) return;
    this.#keys.delete(name);
    this.#leases.get(kv.lease)?.keys.delete(name);
    this.#pending.push({ isDelete: true, kv: { ...kv, modRevision: this.revision + 1n } });
  }

  #commit(why: Why): void {
    if (this.#pending.length === 0) return;
    this.revision += 1n;
    const commit = { revision: this.revision, events: this.#pending };
    this.#pending = [];
    this.#history.push(commit);
    this.#onCommit(commit, why);
  }

  /**
   * A comparison over a range must hold for every key. On an empty range it is evaluated for a key
   * that never existed.
   */
  #holds(compare: Compare): boolean {
    const found = this.#between(compare.key, compare.end);
    if (found.length === 0) return compare.target !== "value" && compares(0n, compare);
    return found.every((kv) =>
      compare.target === "value"
        ? kv.value.equals(compare.than)
        : compares(kv.createRevision, compare),
    );
  }

  #between(key: Uint8Array, end: Uint8Array | undefined): KeyValue[] {
    const first = toName(key);
    if (end === undefined) {
      const only = this.#keys.get(first);
      return only === undefined ? [] : [only];
    }
    const last = toName(end);
    const names = [...this.#keys.keys()].filter((name) => name >= first && name < last);
    return names.sort().map((name) => this.#keys.get(name) as KeyValue);
  }

  /**
   * Checks leases before applying anything, on the branches that will be taken. Verified on a real
   * server.
   */
  #refuseMissingLeases(txn: Txn): void {
    const succeeds = txn.when.every((compare) => this.#holds(compare));
    for (const op of succeeds ? txn.yes : txn.no) {
      if ("txn" in op) this.#refuseMissingLeases(op.txn);
      if (!("put" in op) || op.put.lease === 0n || this.#leases.has(op.put.lease)) continue;
      throw new EtcdStatusError(NOT_FOUND, "etcdserver: requested lease not found");
    }
  }
}

export type Why = "txn" | "revoked" | "expired";

function compares(actual: bigint, compare: Compare): boolean {
  if (compare.target === "value") return false;
  if (compare.is === "=") return actual === compare.than;
  return compare.is === ">" ? actual > compare.than : actual < compare.than;
}

/** Uses one character per byte, so that text order is byte order. */
function toName(key: Uint8Array): string {
  return Buffer.from(key).toString("latin1");
}
