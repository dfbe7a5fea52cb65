// Who is compared on which engine, by the library that is asked. Each is a file in bench/overlap/libraries.

import { join } from "node:path";
import { FLOCK } from "../overlap/contestants.ts";
import type { Place } from "./processes.ts";

export interface Entrant extends Place {
  readonly name: string;
  readonly kind: "ours" | "peer";
  /** What it leaves out altogether, and may be ahead for that anywhere. */
  readonly lacks?: string | undefined;
  /** What it does less where nobody competes. */
  readonly lacksAlone?: string | undefined;
  /** What it does less where several ask all the time. */
  readonly lacksInContention?: string | undefined;
  /** What it does less when it goes from one to the next. */
  readonly lacksInCrowd?: string | undefined;
  /** Locks of one process that are taken at a time, at most. */
  readonly widthMax?: number | undefined;
  /** What it pays for being woken early. */
  readonly asksMore?: string | undefined;
  /** How often it renews by its defaults; missing: never, its locks end with the process. */
  readonly renewEveryMs?: ((ttlMs: number) => number) | undefined;
  /** Why it cannot hold for longer than a ttl, where it cannot. */
  readonly cannotHold?: string | undefined;
}

/** Where the servers of one run are. */
export interface Servers {
  readonly redis: string;
  readonly postgres: string;
  readonly etcd: string;
  /** For what needs no server. */
  readonly folder: string;
}

export type EngineName = "one machine" | "Redis" | "PostgreSQL" | "etcd";

export const NO_TTL =
  "does less: no ttl, no token, nothing written to the disk; ends with the connection";
export const NO_SESSION = "does less: one key set and deleted; no session, no token, no queue";

const NO_QUEUE =
  "does less: no queue; while the others sleep between two tries, whoever gave it back takes it again";

const NO_WRITE =
  "does less: the next in line leads without a write of its own, and learns no token";

const EVERY_10_MS = "asks more: every waiter a hundred times a second, see the rows of waiters";

const REDIS_PEERS = ["redlock", "redlock-universal", "redis-semaphore", "verrou"] as const;

const aThird = (ttlMs: number): number => ttlMs / 3;

/** By their sources, in the versions of bench/peers. */
const REDIS_RENEWALS: Record<(typeof REDIS_PEERS)[number], (ttlMs: number) => number> = {
  redlock: (ttlMs) => ttlMs - 500,
  "redlock-universal": (ttlMs) => ttlMs * 0.8,
  "redis-semaphore": (ttlMs) => ttlMs * 0.8,
  // A timer of ours, in bench/overlap/libraries.
  verrou: aThird,
};

/** Without the peers where they are not installed. */
export function entrantsOf(
  { redis, postgres, etcd, folder }: Servers,
  withPeers: boolean,
): Record<EngineName, readonly Entrant[]> {
  const plain = redis.replace(/\?.*/, "");
  const all: Record<EngineName, readonly Entrant[]> = {
    "one machine": [
      ours(`sqlite:${join(folder, "tenure.db")}`),
      peer("proper-lockfile", folder, {
        lacks:
          "does less: no token, no queue, nothing flushed to the disk; its waiters ask a hundred times a second",
        renewEveryMs: (ttlMs) => ttlMs / 2,
      }),
      peer("flock", folder, {
        name: FLOCK,
        lacks: "does less: no ttl, no token; the kernel's lock of one machine",
        widthMax: 1,
        cannotHold: "a process for each lock",
      }),
    ],
    Redis: [
      ours(redis),
      ...REDIS_PEERS.map((library) =>
        peer(library, plain, {
          renewEveryMs: REDIS_RENEWALS[library],
          lacksAlone: NO_SESSION,
          lacksInContention: NO_QUEUE,
          lacksInCrowd:
            "does less: nobody is woken; it asks again after a pause, and the lock is free meanwhile",
          ...(library === "verrou" ? { cannotHold: "it never renews" } : {}),
          ...(library === "redis-semaphore" ? { asksMore: EVERY_10_MS } : {}),
        }),
      ),
    ],
    PostgreSQL: [ours(postgres), peer("advisory", postgres, { lacks: NO_TTL })],
    etcd: [
      ours(etcd),
      peer("etcd3", etcd, { lacksInContention: NO_QUEUE, renewEveryMs: aThird }),
      peer("etcd3-election", etcd, {
        renewEveryMs: aThird,
        lacksInContention: NO_WRITE,
        lacksInCrowd: NO_WRITE,
        cannotHold: "as etcd3: a lease and a stream each",
      }),
    ],
  };
  if (withPeers) return all;
  const alone = Object.entries(all).map(([engine, entrants]) => [
    engine,
    entrants.filter(({ kind }) => kind === "ours"),
  ]);
  return Object.fromEntries(alone);
}

/** Why each may be ahead, by name. */
export function reasonsOf(
  entrants: readonly Entrant[],
  where: "lacksAlone" | "lacksInContention" | "lacksInCrowd" | "asksMore" | "lacks" = "lacks",
): Record<string, string> {
  const found = entrants.flatMap((each) => {
    const reason = each.lacks ?? each[where];
    return reason === undefined ? [] : [[each.name, reason]];
  });
  return Object.fromEntries(found);
}

/** Why each may be ahead after its holder's death: a holder that renews seldom leaves less of its ttl behind. */
export function failoverReasons(
  entrants: readonly Entrant[],
  ttlMs: number,
): Record<string, string> {
  const seconds = (ms: number): string => `${ms / 1_000} s`;
  const found = entrants.flatMap(({ name, renewEveryMs, lacks }) => {
    const everyMs = renewEveryMs?.(ttlMs);
    const isRarer = everyMs !== undefined && everyMs > aThird(ttlMs);
    const why = isRarer
      ? `asks less: renews every ${seconds(everyMs)}, Tenure every ${seconds(aThird(ttlMs))}, so less of the ttl is left when it dies, and less when a renewal is late`
      : lacks;
    return why === undefined ? [] : [[name, why]];
  });
  return Object.fromEntries(found);
}

function ours(url: string): Entrant {
  return { name: "tenure", kind: "ours", library: "tenure", url, renewEveryMs: aThird };
}

function peer(library: string, url: string, more: Partial<Entrant> = {}): Entrant {
  return { name: library, kind: "peer", library, url, ...more };
}
