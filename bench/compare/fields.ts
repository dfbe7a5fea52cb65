// Who is compared on which engine, and where the servers come from.

import { join } from "node:path";
import type { BenchServer, EngineBench } from "../engines/engine.ts";
import { etcdBench } from "../engines/etcd.ts";
import { pgBench } from "../engines/postgres.ts";
import { ioredisBench } from "../engines/redis.ts";
import type { Comparison } from "./comparison.ts";
import { type Effort, type Entrant, type Floor, lockComparisons, openLocker } from "./locks.ts";

/** Peers by library: what is shown, with the pinned version, comes from package.json. */
const REDIS_PEERS = ["redlock", "redlock-universal", "redis-semaphore", "verrou"] as const;
const NO_TTL = "has no ttl and no token";

export interface Open {
  readonly comparisons: readonly Comparison[];
  close(): Promise<void>;
}

interface Plan {
  readonly engine: string;
  readonly entrants: readonly Entrant[];
  readonly floor?: Floor | undefined;
}

/** All engines; without peers where they cannot be installed. */
export async function openFields(
  effort: Effort,
  place: { readonly folder: string; readonly withPeers: boolean },
): Promise<Open> {
  const closers: (() => Promise<unknown>)[] = [];
  const start = async <S extends BenchServer>(bench: EngineBench<S>): Promise<Started> => {
    const server = await bench.start();
    closers.push(() => Promise.resolve(server[Symbol.asyncDispose]()));
    const floor = await bench.openFloor?.(server);
    if (floor !== undefined) closers.push(() => floor.close());
    return { url: server.url, floor };
  };
  const plans = [
    localPlan(place.folder),
    redisPlan(await start(ioredisBench)),
    postgresPlan(await start(pgBench)),
    etcdPlan(await start(etcdBench)),
  ];
  const comparisons: Comparison[] = [];
  for (const plan of plans) {
    const entrants = plan.entrants.filter(({ kind }) => place.withPeers || kind === "ours");
    const lockers = new Map();
    for (const entrant of entrants) {
      const locker = await openLocker(entrant);
      closers.push(async () => locker.close());
      lockers.set(entrant, locker);
    }
    comparisons.push(...lockComparisons({ ...plan, entrants, lockers }, effort));
  }
  const close = async (): Promise<void> => {
    for (const closeOne of closers.reverse()) await closeOne();
  };
  return { comparisons, close };
}

interface Started {
  readonly url: string;
  readonly floor?: Floor | undefined;
}

function ours(url: string): Entrant {
  return { name: "tenure", kind: "ours", library: "tenure", url };
}

function peer(library: string, url: string, more: Partial<Entrant> = {}): Entrant {
  return { name: library, kind: "peer", library, url, ...more };
}

function redisPlan({ url, floor }: Started): Plan {
  const plain = url.replace(/\?.*/, "");
  const entrants = [ours(url), ...REDIS_PEERS.map((library) => peer(library, plain))];
  return { engine: "Redis", entrants, floor };
}

function etcdPlan({ url, floor }: Started): Plan {
  const entrants = [ours(url), peer("etcd3", url), peer("etcd3-election", url)];
  return { engine: "etcd", entrants, floor };
}

function postgresPlan({ url, floor }: Started): Plan {
  return {
    engine: "PostgreSQL",
    entrants: [ours(url), peer("advisory", url, { lacks: NO_TTL })],
    floor,
  };
}

function localPlan(folder: string): Plan {
  return {
    engine: "one machine",
    entrants: [
      ours(`sqlite:${join(folder, "tenure.db")}`),
      peer("proper-lockfile", folder, { lacks: "has no token, and flushes nothing to the disk" }),
      peer("flock", folder, { lacks: NO_TTL, widthMax: 1 }),
    ],
  };
}
