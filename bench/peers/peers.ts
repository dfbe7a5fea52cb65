// The libraries and locks that Tenure is compared with, one entry each: the engine they run on, how
// they behave, and what explains it where one of them is ahead. bench/peers/libraries has the code
// that uses each of them; bench/peers/go and bench/peers/java have it for other languages.

import { join } from "node:path";
import type { Engine } from "../servers.ts";
import type { Target } from "../workers.ts";
import type { Commands, Language } from "./build.ts";

/** The measurements in which a peer may be ahead of Tenure for a stated reason. */
export type ReasonTopic =
  | "pairs"
  | "handover"
  | "contention"
  | "requests"
  | "restarts"
  | "start"
  | "waiters"
  | "held";

export interface Peer {
  readonly name: string;
  readonly engine: Engine;
  /** A file in bench/peers/libraries. @default the name */
  readonly library?: string;
  /** The npm package. Null if it is not a package. @default the name */
  readonly package?: string | null;
  /** How often it renews by default. Missing: never, because its locks end with the process. */
  readonly renewEveryMs?: (ttlMs: number) => number;
  /** The expression for the value that its interface returns with a grant, as printed. */
  readonly token?: string;
  /** What limits the use of that value as a fencing token. */
  readonly tokenNote?: string;
  /** Its locks do not expire: they end with the process. */
  readonly endsWithProcess?: true;
  /** Why it cannot hold many locks for longer than a ttl. */
  readonly cannotHold?: string;
  /** Why its holder cannot be cut off. */
  readonly cannotBeCutOff?: string;
  /** How long its code gets faster after the start. @default half a second */
  readonly warmUpMs?: number;
  /** Locks that one process takes at a time, at most. */
  readonly inFlightMax?: number;
  /** Why it may be ahead of Tenure; `any` holds for every topic. */
  readonly reasons?: Readonly<Partial<Record<ReasonTopic | "any", string>>>;
}

const ONE_KEY = "does less: sets and deletes one key; no session, token or queue";
const NO_QUEUE = "does less: no queue, so the process that released a lock can take it again first";
const NO_WAKEUP = "does less: polls, and the lock is free until the next poll";
const NO_WRITE = "does less: the next candidate leads without a write of its own and gets no token";
const LEASE_ID = "one server only: etcd derives it from the member's number and clock";

const onRedis = {
  pairs: ONE_KEY,
  start: ONE_KEY,
  contention: NO_QUEUE,
  requests: NO_QUEUE,
  waiters: NO_WAKEUP,
};
/** Its compiler needs this long; with eight processes on two cores it is still not done then. */
const JVM_WARM_UP_MS = 8_000;
const third = (ttlMs: number): number => ttlMs / 3;

/** Renewal intervals are those in the sources of the versions pinned in bench/peers. */
export const peers: readonly Peer[] = [
  {
    name: "proper-lockfile",
    engine: "sqlite",
    renewEveryMs: (ttlMs) => ttlMs / 2,
    cannotBeCutOff: "its lock is a folder on one machine; there is no link to cut",
    reasons: { any: "does less: no token or queue, no flush to disk; polls every 10 ms" },
  },
  {
    // Measures a program that starts, holds the lock and ends; a call of flock(2) is far shorter.
    name: "flock(1), a process per lock",
    engine: "sqlite",
    library: "flock",
    package: null,
    endsWithProcess: true,
    inFlightMax: 1,
    cannotHold: "it needs a process for each lock",
    cannotBeCutOff: "its lock is a file on one machine; there is no link to cut",
    reasons: { any: "does less: no ttl, no token; a kernel lock of one machine" },
  },
  {
    name: "redlock",
    engine: "redis",
    token: "lock.value",
    renewEveryMs: (ttlMs) => ttlMs - 500,
    reasons: onRedis,
  },
  {
    name: "redis-semaphore",
    engine: "redis",
    token: "mutex.identifier",
    renewEveryMs: (ttlMs) => ttlMs * 0.8,
    reasons: {
      ...onRedis,
      handover: "asks more: each waiter polls every 10 ms",
      restarts: "asks more: each waiter polls every 10 ms",
    },
  },
  {
    name: "redlock-universal",
    engine: "redis",
    token: "handle.value",
    renewEveryMs: (ttlMs) => ttlMs * 0.8,
    reasons: onRedis,
  },
  {
    name: "verrou",
    engine: "redis",
    package: "@verrou/core",
    token: "lock.getOwner()",
    // By the timer in libraries/verrou.mjs.
    renewEveryMs: third,
    cannotHold: "it never renews by itself",
    reasons: onRedis,
  },
  {
    name: "SET NX poller",
    engine: "redis",
    library: "poller",
    package: null,
    token: "value",
    renewEveryMs: third,
    cannotHold: "it has a timer for each lock",
    cannotBeCutOff: "it is not a library: it has no way to notify its holder",
    reasons: onRedis,
  },
  {
    name: "advisory",
    engine: "postgres",
    package: null,
    endsWithProcess: true,
    cannotBeCutOff:
      "it sends nothing while it holds and never expires, so the server frees it only when it sees the connection end",
    reasons: { any: "does less: no ttl, no token, no disk write; ends with the connection" },
  },
  {
    name: "etcd3",
    engine: "etcd",
    token: "lock.leaseId()",
    tokenNote: LEASE_ID,
    renewEveryMs: third,
    reasons: { contention: NO_QUEUE },
  },
  {
    name: "etcd3-election",
    engine: "etcd",
    package: "etcd3",
    token: "campaign.getCampaignKey()",
    tokenNote: LEASE_ID,
    renewEveryMs: third,
    cannotHold: "like etcd3: a lease and a stream for each lock",
    reasons: { contention: NO_WRITE, waiters: NO_WRITE },
  },
];

/** In other languages. They take part in the topics that compare processes. */
const otherLanguages: readonly (Peer & { readonly language: Language })[] = [
  {
    name: "redislock (Go)",
    engine: "redis",
    language: "go",
    library: "redislock",
    package: null,
    cannotHold: "it never renews by itself",
    reasons: onRedis,
  },
  {
    name: "Redisson fair lock (Java)",
    engine: "redis",
    language: "java",
    library: "redisson-fair",
    package: null,
    warmUpMs: JVM_WARM_UP_MS,
  },
  {
    name: "concurrency.Mutex (Go)",
    engine: "etcd",
    language: "go",
    library: "etcd-mutex",
    package: null,
  },
  {
    name: "Curator InterProcessMutex (Java)",
    engine: "zookeeper",
    language: "java",
    library: "curator-mutex",
    package: null,
    warmUpMs: JVM_WARM_UP_MS,
  },
];

/** Tenure or a peer, on one server. */
export interface Contender extends Target {
  readonly name: string;
  readonly kind: "tenure" | "peer";
  /** Undefined for Tenure. */
  readonly peer?: Peer | undefined;
}

/**
 * Tenure and, if wanted, the peers of this engine: those for Node, and those in the languages for
 * which there is a command. `url`: the server's; for SQLite, a folder.
 */
export function contendersOn(
  engine: Engine,
  url: string,
  withPeers: boolean,
  commands: Commands = new Map(),
): [Contender, ...Contender[]] {
  const toContender = (peer: Peer, command?: readonly string[]): Contender => ({
    name: peer.name,
    kind: "peer",
    library: peer.library ?? peer.name,
    url,
    peer,
    command,
  });
  const isHere = (peer: Peer): boolean => withPeers && peer.engine === engine;
  return [
    { name: "tenure", kind: "tenure", library: "tenure", url: toTenureUrl(engine, url) },
    ...peers.filter(isHere).map((peer) => toContender(peer)),
    ...otherLanguages.filter(isHere).flatMap((peer) => {
      const command = commands.get(peer.language);
      return command === undefined ? [] : [toContender(peer, command)];
    }),
  ];
}

function toTenureUrl(engine: Engine, url: string): string {
  if (engine === "sqlite") return `sqlite:${join(url, "tenure.db")}`;
  // The peers use ioredis, too.
  return engine === "redis" ? `${url}?library=ioredis` : url;
}

/** Why this contender may be ahead of Tenure. */
export function findReason({ peer }: Contender, topic: ReasonTopic): string | undefined {
  return peer?.reasons?.any ?? peer?.reasons?.[topic];
}

/** A holder that renews rarely has less of its ttl left when it dies. */
export function findFailoverReason({ peer }: Contender, ttlMs: number): string | undefined {
  const everyMs = peer?.renewEveryMs?.(ttlMs);
  if (everyMs === undefined || everyMs <= third(ttlMs)) return peer?.reasons?.any;
  return `renews every ${everyMs / 1_000} s, Tenure every ${third(ttlMs) / 1_000} s: less ttl is left, also for a late renewal`;
}

/** The npm packages of the peers, each once. */
export function peerPackages(): string[] {
  const names = peers.map(({ name, package: from = name }) => from);
  return [...new Set(names.filter((name) => name !== null))];
}
