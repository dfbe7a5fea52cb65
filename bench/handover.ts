// Handover between two processes: from the call of release in one to the end of acquire in the
// other, by the monotonic clock that all processes of a host share.

import { setTimeout as sleep } from "node:timers/promises";
import { type Baseline, measureTrip, openBaseline, timeOf } from "./baselines.ts";
import { type Contestant, compare, milliseconds } from "./comparison.ts";
import type { Section } from "./results.ts";
import { labels } from "./servers.ts";
import { type Context, toContestants } from "./topic.ts";
import { newResource, type Target, withLockers } from "./workers.ts";

/** What a handover may take beyond three round trips. */
const ALLOWED_MS = 10;
/** On SQLite a waiter polls the file, which takes longer than a round trip. */
const SQLITE_MAX_MS = 25;

export async function* handover(context: Context): AsyncGenerator<Section> {
  const { quick, withPeers, engines, servers } = context;
  const handovers = quick ? 5 : withPeers ? 30 : 100;
  const rounds = quick ? 1 : 3;
  for (const engine of engines) {
    const url = await servers.url(engine);
    const baseline = await openBaseline[engine](url);
    try {
      const tripMs = await measureTrip(baseline);
      const atMost = engine === "sqlite" ? SQLITE_MAX_MS : 3 * tripMs + ALLOWED_MS;
      const target = { engine, url, topic: "handover" } as const;
      const contestants = toContestants(context, target, async (contender) => ({
        times: await measureHandovers(contender, handovers),
      }));
      yield await compare({
        title: `${labels[engine]}: handover between two processes`,
        method: `${rounds} x ${handovers} handovers, released at a random phase of the waiting. The target is three bare round trips (one takes ${tripMs.toFixed(2)} ms) and ${ALLOWED_MS} ms; on SQLite ${SQLITE_MAX_MS} ms.`,
        rounds,
        figures: { times: { ...milliseconds, atMost } },
        contestants: [...contestants, twoWrites(baseline, handovers)],
      });
    } finally {
      await baseline.close();
    }
  }
}

/** A release and a grant are two writes, one after the other: no handover is faster than these. */
function twoWrites(baseline: Baseline, count: number): Contestant {
  return {
    name: "two bare writes after the same pause",
    kind: "baseline",
    measure: async () => {
      const times: number[] = [];
      while (times.length < count) {
        await sleep(20 + Math.random() * 20);
        times.push(await timeOf(() => baseline.pair(0)));
      }
      return { times };
    },
  };
}

/**
 * The process that released does not ask again before the other one holds the lock. A library
 * without a queue would otherwise hand the lock to itself.
 */
function measureHandovers(target: Target, handovers: number): Promise<number[]> {
  return withLockers(target, { count: 2 }, async ([first, second = first]) => {
    const resource = newResource();
    const gaps: number[] = [];
    let [holder, waiter] = [first, second];
    await holder.ask({ lock: resource });
    while (gaps.length < handovers) {
      const waiting = waiter.ask<number>({ lock: resource });
      // Any phase of a poll.
      await sleep(20 + Math.random() * 200);
      const releasedAt = await holder.ask<number>({ unlock: resource });
      gaps.push((await waiting) - releasedAt);
      [holder, waiter] = [waiter, holder];
    }
    return gaps;
  });
}
