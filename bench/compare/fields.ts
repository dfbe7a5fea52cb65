// The servers of the comparison, the lockers that stay open on them, and what is compared there. A server or a library that
// does not come up leaves a line behind and nothing else.

import type { BenchServer, EngineBench } from "../engines/engine.ts";
import { etcdBench } from "../engines/etcd.ts";
import { pgBench } from "../engines/postgres.ts";
import { ioredisBench } from "../engines/redis.ts";
import type { Row } from "../support.ts";
import type { Comparison } from "./comparison.ts";
import { type EngineName, type Entrant, entrantsOf } from "./entrants.ts";
import { sqliteFloor } from "./floors.ts";
import { type Effort, type Floor, type Locker, lockComparisons, openLocker } from "./locks.ts";

export interface Open {
  readonly comparisons: readonly Comparison[];
  /** Who could not be opened, and why. */
  readonly missing: readonly Row[];
  close(): Promise<void>;
}

/** All engines; without peers where they cannot be installed. */
export async function openFields(
  effort: Effort,
  { folder, withPeers }: { readonly folder: string; readonly withPeers: boolean },
): Promise<Open> {
  const closers: (() => unknown)[] = [];
  const missing: Row[] = [];
  const floors = new Map<EngineName, Floor>();
  const start = async <S extends BenchServer>(
    name: EngineName,
    bench: EngineBench<S>,
  ): Promise<string> => {
    const server = await bench.start();
    closers.push(() => server[Symbol.asyncDispose]());
    const floor = await bench.openFloor?.(server);
    if (floor !== undefined) {
      floors.set(name, floor);
      closers.push(() => floor.close());
    }
    return server.url;
  };
  const servers = {
    redis: await start("Redis", ioredisBench),
    postgres: await start("PostgreSQL", pgBench),
    etcd: await start("etcd", etcdBench),
    folder,
  };
  const floor = await sqliteFloor(folder);
  floors.set("one machine", floor);
  closers.push(() => floor.close());
  const comparisons: Comparison[] = [];
  const fields = Object.entries(entrantsOf(servers, withPeers)) as [
    EngineName,
    readonly Entrant[],
  ][];
  for (const [engine, all] of fields) {
    const lockers = new Map<Entrant, Locker>();
    for (const entrant of all) {
      try {
        const locker = await openLocker(entrant);
        closers.push(() => locker.close());
        lockers.set(entrant, locker);
      } catch (error) {
        const row = {
          what: `${engine}: ${entrant.name}`,
          measured: `could not be opened: ${(error as Error).message.split("\n")[0]}`,
        };
        missing.push(entrant.kind === "ours" ? { ...row, ok: false } : row);
      }
    }
    const field = { engine, entrants: [...lockers.keys()], lockers, floor: floors.get(engine) };
    comparisons.push(...lockComparisons(field, effort));
  }
  const close = async (): Promise<void> => {
    // A peer that cannot close must not keep the others open.
    for (const closeOne of closers.reverse()) {
      try {
        await closeOne();
      } catch {}
    }
  };
  return { comparisons, missing, close };
}
