// etcd's key space as far as the store uses it: revisions, transactions, leases and the history that watches are served
// from. Ids, revisions and seconds as etcd has them; no network and no bytes here.

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

/** What happened at one revision. */
export interface Commit {
  readonly revision: bigint;
  readonly events: readonly WatchEvent[];
}

/** By default an election takes a second at most, and no lease is shorter than one and a half of it, rounded up. */
const TTL_MIN_S = 2;
const INVALID_ARGUMENT = 3;
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

  range({ key, end, limit, keysOnly }: Range): { kvs: KeyValue[]; more: boolean } {
    const found = this.#between(key, end);
    const most = limit === undefined || limit === 0 ? found.length : limit;
    const kvs = found.slice(0, most);
    return {
      kvs: keysOnly === true ? kvs.map((kv) => ({ ...kv, value: Buffer.alloc(0) })) : kvs,
      more: found.length > most,
    };
  }

  /** All or nothing: a lease that is missing refuses the whole. */
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

  /** From the leader's memory; one that has run out and is not yet removed is not brought back. */
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

  /** What the lessor does every half second. */
  expire(): void {
    for (const { id, expiresAt } of [...this.#leases.values()])
      if (expiresAt <= this.#now()) this.revokeLease(id, "expired");
  }

  /** A new leader knows of no renewals: every lease gets its full time again. */
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
    else if ("touch" in op) this.#put(this.#there(op.touch.key));
    else
      for (const { key } of this.#between(op.remove.key, op.remove.end)) this.#remove(nameOf(key));
    return "done";
  }

  #put({ key, value, lease }: { key: Uint8Array; value: Uint8Array; lease: bigint }): void {
    const name = nameOf(key);
    const modRevision = this.revision + 1n;
    const before = this.#keys.get(name);
    if (before !== undefined) this.#leases.get(before.lease)?.keys.delete(name);
    const kv: KeyValue = {
      ...{ key: Buffer.from(key), value: Buffer.from(value), lease, modRevision },
      createRevision: before?.createRevision ?? modRevision,
    };
    this.#keys.set(name, kv);
    this.#leases.get(lease)?.keys.add(name);
    this.#pending.push({ isDelete: false, kv });
  }

  #there(key: Uint8Array): KeyValue {
    const kv = this.#keys.get(nameOf(key));
    if (kv === undefined) throw new EtcdStatusError(INVALID_ARGUMENT, "etcdserver: key not found");
    return kv;
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

  /** Over a range it must hold for every key; where there is none, for one that was never made. */
  #holds(compare: Compare): boolean {
    const found = this.#between(compare.key, compare.end);
    if (found.length === 0) return compare.target !== "value" && compares(0n, compare);
    return found.every((kv) => {
      if (compare.target === "value") {
        const order = kv.value.compare(compare.than);
        return compare.is === "=" ? order === 0 : compare.is === ">" ? order > 0 : order < 0;
      }
      return compares(numberOf(kv, compare.target), compare);
    });
  }

  #between(key: Uint8Array, end: Uint8Array | undefined): KeyValue[] {
    const first = nameOf(key);
    if (end === undefined) {
      const only = this.#keys.get(first);
      return only === undefined ? [] : [only];
    }
    const last = nameOf(end);
    const names = [...this.#keys.keys()].filter((name) => name >= first && name < last);
    return names.sort().map((name) => this.#keys.get(name) as KeyValue);
  }

  /** Before anything is carried out, and only on the branches that are taken (tried on a real server). */
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
  return compare.is === ">" ? actual > compare.than : actual === compare.than;
}

function numberOf(kv: KeyValue, target: "create" | "mod" | "lease"): bigint {
  if (target === "lease") return kv.lease;
  return target === "mod" ? kv.modRevision : kv.createRevision;
}

/** One character for each byte: the order of such texts is the order of the bytes. */
function nameOf(key: Uint8Array): string {
  return Buffer.from(key).toString("latin1");
}
