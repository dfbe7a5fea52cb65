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

  stream(path: string, send: (message: Uint8Array) => void): Session {
    return path === rpc.watch.path ? this.#watch(send) : this.#keepAlive(send);
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

  #keepAlive(send: (message: Uint8Array) => void): Session {
    return {
      receive: (message) => {
        const [id] = wire.readNumbers(message);
        const lease = this.#space.keepAlive(id);
        if (lease !== undefined) this.#kept(id, lease.expiresAt);
        send(wire.writeLeaseAnswer(this.#space, { id, ttl: lease?.ttl ?? 0 }));
      },
      end: () => undefined,
    };
  }

  #watch(send: (message: Uint8Array) => void): Session {
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
        const { id, key, end: until, from } = order.create;
        const watcher: Watcher = { id, key, end: until, send };
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
    const wanted = events.filter(({ kv }) => isIn(kv.key, watcher));
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
    for (const { isDelete, kv } of events) {
      const text = kv.key.toString();
      if (text.startsWith(`${PREFIX}l/`)) {
        const resource = names.resourceOf(kv.key);
        const token = kv.createRevision;
        const { sessionId: session, attempt } = decodeRecord(kv.value.toString());
        if (!isDelete)
          this.#trace.note("store", { kind: "storeGranted", resource, token, session, attempt });
        else if (why !== "expired")
          this.#trace.note("store", { kind: "storeFreed", resource, token, how });
      } else if (!isDelete && isSessionKey(text)) {
        const { sessionId } = JSON.parse(kv.value.toString()) as { sessionId: string };
        this.#sessions.set(kv.lease, sessionId);
        this.#kept(kv.lease, this.#space.lease(kv.lease)?.expiresAt ?? 0);
      }
    }
  }

  #kept(lease: bigint, expiresAt: number): void {
    const session = this.#sessions.get(lease);
    if (session === undefined) return;
    const until = this.#program.clocks.trueInstant(expiresAt);
    this.#trace.note("store", { kind: "storeKept", session, until });
  }
}

/** `tenure/s/<lease>/` is the session. The keys below it record revocations. */
function isSessionKey(text: string): boolean {
  return text.startsWith(`${PREFIX}s/`) && text.endsWith("/") && text.split("/").length === 4;
}

function isRevocationKey(key: Buffer): boolean {
  const text = key.toString();
  return text.startsWith(`${PREFIX}s/`) && !isSessionKey(text);
}

function isIn(key: Buffer, { key: first, end }: Watcher): boolean {
  if (end === undefined) return key.equals(first);
  return key.compare(first) >= 0 && key.compare(end) < 0;
}
