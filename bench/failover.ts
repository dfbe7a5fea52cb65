// Failover: from SIGKILL of a holder to the grant of a process that waits. Each holder has renewed
// for two ttls, and dies at its own phase between two renewals. The phases are spread evenly, so
// that every library dies at the same shares of its own renewal interval.

import { setTimeout as sleep } from "node:timers/promises";
import { hostMs } from "../test/support/faults/history.ts";
import { type Contestant, compare, milliseconds } from "./comparison.ts";
import { type Contender, contendersOn, findFailoverReason } from "./peers/peers.ts";
import type { Section } from "./results.ts";
import { labels } from "./servers.ts";
import type { Context } from "./topic.ts";
import { newResource, Worker, withLockers } from "./workers.ts";

const TTL_MS = 3_000;
/**
 * Servers check for expired locks at intervals. With peers, more processes run at the same time.
 */
const EXTRA_MS = 500;

export async function* failover(context: Context): AsyncGenerator<Section> {
  const { quick, withPeers, engines, servers } = context;
  const trials = quick ? 3 : 9;
  const extraMs = withPeers ? 2 * EXTRA_MS : EXTRA_MS;
  for (const engine of engines) {
    const contenders = contendersOn(engine, await servers.url(engine), withPeers);
    yield await compare({
      title: `${labels[engine]}: failover`,
      method: `From SIGKILL of the holder to the next grant, ttl ${TTL_MS / 1_000} s; ${trials} trials of each library at the same time, each on its own lock. The target is the ttl and ${extraMs} ms.`,
      rounds: 1,
      figures: { times: { ...milliseconds, atMost: TTL_MS + extraMs } },
      together: true,
      contestants: contenders.map(
        (contender): Contestant => ({
          name: contender.name,
          kind: contender.kind,
          reason: findFailoverReason(contender, TTL_MS),
          measure: async () => ({ times: await measureFailovers(contender, trials) }),
        }),
      ),
    });
  }
}

function measureFailovers(contender: Contender, trials: number): Promise<number[]> {
  const { library, url, peer } = contender;
  const renewEveryMs = peer === undefined ? TTL_MS / 3 : (peer.renewEveryMs?.(TTL_MS) ?? TTL_MS);
  const keepMs = Math.ceil((2 * TTL_MS) / renewEveryMs) * renewEveryMs;
  return withLockers(contender, { count: 1, ttlMs: TTL_MS }, async ([waiter]) => {
    const resources = Array.from({ length: trials }, newResource);
    const settings = { library, url, ttlMs: TTL_MS };
    const holders = resources.map(() => new Worker("holder.mjs", settings));
    try {
      await Promise.all(holders.map((holder) => holder.next()));
      const grants = await Promise.all(
        holders.map((holder, trial) => holder.ask<number>({ hold: [resources[trial]] })),
      );
      const waiting = waiter.ask<number[]>({ lockEach: resources });
      const kills = holders.map(async (holder, trial) => {
        const phaseMs = ((trial + 0.5) / trials) * renewEveryMs;
        await sleep((grants[trial] ?? Number.NaN) + keepMs + phaseMs - hostMs());
        const killedAt = hostMs();
        holder.signal("SIGKILL");
        return killedAt;
      });
      const killed = await Promise.all(kills);
      const taken = await waiting;
      const gaps = killed.map((at, trial) => (taken[trial] ?? Number.NaN) - at);
      if (gaps.some((gap) => gap < 0)) throw new Error("a lock was lost while its holder lived");
      return gaps;
    } finally {
      await Promise.all(holders.map((holder) => holder.end()));
    }
  });
}
