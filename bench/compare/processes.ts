// Comparisons between processes, one library in all of them: handover, throughput on one lock, failover.

import type { ChildProcess } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { answer, heard, startWorker } from "../workers.ts";

export interface Place {
  /** A file in bench/overlap/libraries. */
  readonly library: string;
  readonly url: string;
}

const TTL_MS = 10_000;
export const FAILOVER_TTL_MS = 3_000;
let resources = 0;

export async function withWorkers<T>(
  { library, url }: Place,
  count: number,
  work: (workers: readonly ChildProcess[], resource: string) => Promise<T>,
  ttlMs: number = TTL_MS,
): Promise<T> {
  const workers = Array.from({ length: count }, () =>
    startWorker("locker.mjs", library, url, String(ttlMs)),
  );
  resources += 1;
  // Named before anything is waited for: several libraries on one server may be measured at the same time.
  const resource = `compared-${resources}`;
  try {
    await Promise.all(workers.map((worker) => heard(worker)));
    return await work(workers, resource);
  } finally {
    for (const worker of workers) worker.kill("SIGKILL");
  }
}

/**
 * From the call of release in one process to the end of acquire in the other, each time. Who gave it away does not ask again
 * before the other has it: a library without a queue would otherwise hand it to itself.
 */
export function handover(place: Place, handovers: number): Promise<number[]> {
  return withWorkers(place, 2, async (workers, resource) => {
    const gaps: number[] = [];
    let [holder, waiter] = workers;
    if (holder === undefined || waiter === undefined) throw new Error("two workers were started");
    await answer(holder, { resource });
    while (gaps.length < handovers) {
      const waiting = answer<number>(waiter, { resource });
      waiting.catch(() => undefined);
      // At any phase of a poll.
      await sleep(20 + Math.random() * 200);
      const releasedAt = await answer<number>(holder, { free: true });
      gaps.push((await waiting) - releasedAt);
      [holder, waiter] = [waiter, holder];
    }
    return gaps;
  });
}

/** Locks taken and given back per second, by all of them together. */
export function contended(place: Place, processes: number, contendMs: number): Promise<number> {
  return withWorkers(place, processes, async (workers, resource) => {
    const order = { resource, contendMs };
    const pairs = await Promise.all(workers.map((worker) => answer<number>(worker, order)));
    return (pairs.reduce((sum, each) => sum + each, 0) * 1_000) / contendMs;
  });
}

export interface Failovers {
  readonly trials: number;
  /** How often the library renews by itself; Infinity: never, and what ends a lock is the end of its process. */
  readonly renewEveryMs: number;
}

/**
 * From the holder's death to the grant of the one that waits, so many times at once, each on a lock and in a process of its own.
 * Every holder has renewed for two ttls at least, and dies at its own phase between two renewals: evenly spread, so that what is
 * left of the ttl is no draw of luck, and every library has the same share of its interval behind it.
 */
export function failover(place: Place, { trials, renewEveryMs }: Failovers): Promise<number[]> {
  const stepMs = Math.min(renewEveryMs, FAILOVER_TTL_MS);
  const keepMs = Math.ceil((2 * FAILOVER_TTL_MS) / stepMs) * stepMs;
  const work = async ([waiter]: readonly ChildProcess[], resource: string): Promise<number[]> => {
    if (waiter === undefined) throw new Error("one worker was started");
    const { library, url } = place;
    const keepers = Array.from({ length: trials }, () =>
      startWorker("keeper.mjs", library, url, String(FAILOVER_TTL_MS)),
    );
    const all = keepers.map((_, trial) => `${resource}-${trial}`);
    try {
      await Promise.all(keepers.map((keeper) => heard(keeper)));
      const grants = await Promise.all(
        keepers.map((keeper, trial) => answer<number>(keeper, { keep: all[trial] })),
      );
      const waiting = answer<number[]>(waiter, { all });
      waiting.catch(() => undefined);
      const kills = keepers.map(async (keeper, trial) => {
        const phaseMs = ((trial + 0.5) / trials) * stepMs;
        await sleep((grants[trial] ?? Number.NaN) + keepMs + phaseMs - hostMs());
        const killedAt = hostMs();
        keeper.kill("SIGKILL");
        return killedAt;
      });
      const killed = await Promise.all(kills);
      const taken = await waiting;
      const gaps = killed.map((at, trial) => (taken[trial] ?? Number.NaN) - at);
      if (gaps.some((gap) => gap < 0)) throw new Error("a lock was lost while its holder lived");
      return gaps;
    } finally {
      for (const keeper of keepers) keeper.kill("SIGKILL");
    }
  };
  return withWorkers(place, 1, work, FAILOVER_TTL_MS);
}

/** The clock that all processes of the host share. */
function hostMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/** From the start of a process to its first lock. */
export async function firstLock({ library, url }: Place): Promise<number> {
  resources += 1;
  const begunAt = performance.now();
  const worker = startWorker("locker.mjs", library, url, String(TTL_MS));
  try {
    await heard(worker);
    await answer(worker, { resource: `first-${resources}` });
    return performance.now() - begunAt;
  } finally {
    worker.kill("SIGKILL");
  }
}
