// Simulates an etcd cluster as its clients see it: requests by path, the clock of one leader, and a
// lessor that removes expired leases twice a second. After an outage a new leader has been elected.
// Notes in the trace what happens to holders and sessions.

import { namesOf } from "../../../src/clients/etcd/names.ts";
import { Reader } from "../../../src/clients/etcd/protobuf.ts";
import * as rpc from "../../../src/clients/etcd/rpc.ts";
import { decodeRecord } from "../../../src/core/record.ts";
import type { Program } from "../../world/program.ts";
import type { Ending, Trace } from "../../world/trace.ts";
import { type Commit, KeySpace, type Why } from "./key-space.ts";
import * as wire from "./wire.ts";

interface Watcher {
  readonly id: bigint;
  readonly key: Uint8Array;
  readonly end: Uint8Array | undefined;
  readonly deletionsOnly: boolean;
  readonly send: (message: Uint8Array) => void;
}

/** The server's side of a client's stream. */
export interface Session {
  receive(message: Uint8Array): void;
  end(): void;
}

const LESSOR_MS = 500;
const PREFIX = "tenure/";
const names = namesOf(PREFIX);

export class EtcdServer {
  readonly #program: Program;
  readonly #trace: Trace;
  readonly #space: KeySpace;
  readonly #watchers = new Set<Watcher>();
  /** The Tenure session of each etcd lease. */
  readonly #sessions = new Map<bigint, string>();
  /** The token of each holder at the last commit. */
  readonly #holders = new Map<string, bigint>();

  constructor(program: Program, trace: Trace) {
    this.#program = program;
    this.#trace = trace;
    const now = (): number => program.clocks.now();
    this.#space = new KeySpace(now, (commit, why) => this.#committed(commit, why));
    this.#lessor();
  }

  /** Throws an EtcdStatusError where etcd would answer with one. */
  handle(path: string, message: Uint8Array): Uint8Array {
    const space = this.#space;
    switch (path) {
      case rpc.range.path: {
        const found = space.range(wire.readRange(new Reader(message)));
        return wire.writeRangeAnswer(space, found);
      }
      case rpc.txn.path: {
        const result = space.txn(wire.readTxn(new Reader(message)));
        return wire.writeTxnAnswer(space, result);
      }
      case rpc.leaseGrant.path: {
        const [ttl, id] = wire.readNumbers(message);
        return wire.writeLeaseAnswer(space, space.grantLease(id, Number(ttl)));
      }
      case rpc.leaseRevoke.path: {
        space.revokeLease(wire.readNumbers(message)[0], "revoked");
        return wire.writeLeaseAnswer(space, { id: 0n, ttl: 0 });
      }
      case rpc.leaseKeepAlive.path: {
        const [id] = wire.readNumbers(message);
        const lease = space.keepAlive(id);
        if (lease !== undefined) this.#kept(id, lease.expiresAt);
        return wire.writeLeaseAnswer(space, { id, ttl: lease?.ttl ?? 0 });
      }
      case rpc.leaseTimeToLive.path: {
        const [id] = wire.readNumbers(message);
        const lease = space.lease(id);
        const left =
          lease === undefined ? -1 : (lease.expiresAt - this.#program.clocks.now()) / 1e3;
        const grantedTtl = lease?.ttl ?? 0;
        return wire.writeLeaseAnswer(space, { id, ttl: Math.floor(left), grantedTtl });
      }
      case rpc.status.path:
        return wire.writeStatus(space);
      default:
        throw new Error(`The model of etcd does not know ${path}.`);
    }
  }

  /** Returns from an outage with a new leader: every lease starts its full ttl again. */
  elect(): void {
    this.#watchers.clear();
    this.#trace.countModelEvent("a new leader");
    for (const { id, expiresAt } of this.#space.elect()) this.#kept(id, expiresAt);
  }

  #lessor(): void {
    this.#space.expire();
    this.#program.clock.setTimer(() => this.#lessor(), LESSOR_MS);
  }

  /** Opens a stream for watches. */
  openWatches(send: (message: Uint8Array) => void): Session {
    const own = new Map<bigint, Watcher>();
    const end = (watcher: Watcher | undefined): void => {
      if (watcher !== undefined) this.#watchers.delete(watcher);
    };
    return {
      receive: (message) => {
        const order = wire.readWatch(message);
        if ("cancel" in order) {
          end(own.get(order.cancel));
          return;
        }
        const { id, key, end: until, from, deletionsOnly = false } = order.create;
        const watcher: Watcher = { id, key, end: until, deletionsOnly, send };
        own.set(id, watcher);
        this.#watchers.add(watcher);
        send(wire.writeWatchAnswer(this.#space, id, { created: true, events: [] }));
        if (from > 0n) for (const commit of this.#space.since(from)) this.#show(watcher, commit);
      },
      end: () => {
        for (const watcher of own.values()) end(watcher);
      },
    };
  }

  #show(watcher: Watcher, { events }: Commit): void {
    const wanted = events.filter(
      ({ isDelete, kv }) => isIn(kv.key, watcher) && (isDelete || !watcher.deletionsOnly),
    );
    if (wanted.length === 0) return;
    const answer = { created: false, events: wanted };
    watcher.send(wire.writeWatchAnswer(this.#space, watcher.id, answer));
  }

  #committed(commit: Commit, why: Why): void {
    this.#witness(commit, why);
    for (const watcher of [...this.#watchers]) this.#show(watcher, commit);
  }

  /** Notes which holders and sessions came and went with this commit. */
  #witness({ events }: Commit, why: Why): void {
    const isRevocation = events.some(({ isDelete, kv }) => !isDelete && isRevocationKey(kv.key));
    const how: Ending = why === "revoked" ? "sessionEnded" : isRevocation ? "revoked" : "withdrawn";
    const resources = new Set<string>();
    for (const { isDelete, kv } of events) {
      const text = kv.key.toString();
      const resource = text.startsWith(`${PREFIX}l/`) && names.readQueueKey(kv.key)?.resource;
      if (resource) resources.add(resource);
      if (isDelete || !isSessionKey(text)) continue;
      const { sessionId } = JSON.parse(kv.value.toString()) as { sessionId: string };
      this.#sessions.set(kv.lease, sessionId);
      this.#kept(kv.lease, this.#space.lease(kv.lease)?.expiresAt ?? 0);
    }
    for (const resource of resources) this.#compareHolders(resource, how, why);
  }

  /** The oldest key of a queue holds the resource. */
  #compareHolders(resource: string, how: Ending, why: Why): void {
    const before = this.#holders.get(resource);
    const [oldest] = this.#space.range({ ...names.queue(resource), oldestFirst: true }).kvs;
    const token = oldest?.createRevision;
    if (token === before) return;
    if (before !== undefined && why !== "expired")
      this.#trace.note("store", { kind: "storeFreed", resource, token: before, how });
    if (oldest === undefined || token === undefined) {
      this.#holders.delete(resource);
      return;
    }
    this.#holders.set(resource, token);
    const { sessionId: session, attempt } = decodeRecord(oldest.value.toString());
    this.#trace.note("store", { kind: "storeGranted", resource, token, session, attempt });
  }

  #kept(lease: bigint, expiresAt: number): void {
    const session = this.#sessions.get(lease);
    if (session === undefined) return;
    const until = this.#program.clocks.trueInstant(expiresAt);
    this.#trace.note("store", { kind: "storeKept", session, until });
  }
}

/** `tenure/s/<lease>/` is the session. The keys below it are notes. */
function isSessionKey(text: string): boolean {
  return text.startsWith(`${PREFIX}s/`) && text.endsWith("/") && text.split("/").length === 4;
}

function isRevocationKey(key: Buffer): boolean {
  return /^tenure\/s\/[0-9a-f]+\/r\//.test(key.toString());
}

function isIn(key: Buffer, { key: first, end }: Watcher): boolean {
  if (end === undefined) return key.equals(first);
  return key.compare(first) >= 0 && key.compare(end) < 0;
}
