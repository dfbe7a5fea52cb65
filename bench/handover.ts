// Handover between two processes: from the call of release in one to the end of acquire in the
// other, by the monotonic clock that all processes of a host share.

import { setTimeout as sleep } from "node:timers/promises";
import { type Baseline, measureTrip, openBaseline, timeOf } from "./baselines.ts";
import { type Contestant, compare, milliseconds } from "./comparison.ts";
import { bareNotification } from "./notifications.ts";
import type { Section } from "./results.ts";
import { type Engine, labels } from "./servers.ts";
import { type Context, toContestants, withKeptLockers } from "./topic.ts";
import { newResource, type Worker } from "./workers.ts";

/** What a handover may take beyond three round trips. */
const ALLOWED_MS = 10;
/** On SQLite a waiter polls the file, which takes longer than a round trip. */
const SQLITE_MAX_MS = 25;
/** A handover may take 1.3 times as long as a bare notification. */
const NOTIFICATION_TARGET = 1 / 1.3;

interface Waiting {
  readonly label: string;
  readonly fromMs: number;
  readonly toMs: number;
}

/** Any phase of a poll. */
const ANY_PHASE: Waiting = { label: "", fromMs: 20, toMs: 220 };
/** etcd serves a watch that begins in the past late; after 100 ms, every watch is up to date. */
const LONG: Waiting = { label: " after a wait of over 100 ms", fromMs: 120, toMs: 320 };

export async function* handover(context: Context): AsyncGenerator<Section> {
  const { engines, servers } = context;
  for (const engine of engines) {
    const url = await servers.url(engine);
    const baseline = await openBaseline[engine](url);
    try {
      for (const waiting of engine === "etcd" ? [ANY_PHASE, LONG] : [ANY_PHASE])
        yield await compareHandovers(context, { engine, url, baseline, waiting });
    } finally {
      await baseline.close();
    }
  }
}

interface Plan {
  readonly engine: Engine;
  readonly url: string;
  readonly baseline: Baseline;
  readonly waiting: Waiting;
}

async function compareHandovers(
  context: Context,
  { engine, url, baseline, waiting }: Plan,
): Promise<Section> {
  const { quick, withPeers } = context;
  const handovers = quick ? 5 : withPeers ? 30 : 100;
  const rounds = quick ? 1 : 3;
  const pauseMs = (): number => waiting.fromMs + Math.random() * (waiting.toMs - waiting.fromMs);
  const tripMs = await measureTrip(baseline);
  const atMost = engine === "sqlite" ? SQLITE_MAX_MS : 3 * tripMs + ALLOWED_MS;
  const target = { engine, url, topic: "handover", allLanguages: true } as const;
  const contestants = toContestants(context, target, (contender) =>
    withKeptLockers(
      contender,
      { count: 2, quick },
      {
        ms: Number.POSITIVE_INFINITY,
        act: async (workers, ms) => ({
          times: await measureHandovers(workers, { handovers, pauseMs, ms }),
        }),
      },
    ),
  );
  return compare({
    title: `${labels[engine]}: handover between two processes${waiting.label}`,
    method: `${rounds} x ${handovers} handovers, released at a random phase of the waiting. The target is three bare round trips (one takes ${tripMs.toFixed(2)} ms) and ${ALLOWED_MS} ms; on SQLite ${SQLITE_MAX_MS} ms.`,
    rounds,
    figures: { times: { ...milliseconds, atMost } },
    contestants: [
      ...contestants,
      twoWrites(baseline, handovers),
      ...bareNotification(
        { engine, url },
        { count: handovers, pauseMs, target: NOTIFICATION_TARGET },
      ),
    ],
  });
}

/** A release and a grant are two writes, one after the other. */
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
 * Ends after so many handovers or after so many milliseconds. The process that released does not
 * ask again before the other one holds the lock. A library without a queue would otherwise hand the
 * lock to itself.
 */
async function measureHandovers(
  [first, second = first]: readonly [Worker, ...Worker[]],
  { handovers, pauseMs, ms }: { handovers: number; pauseMs(): number; ms: number },
): Promise<number[]> {
  const until = performance.now() + ms;
  const resource = newResource();
  const gaps: number[] = [];
  let [holder, waiter] = [first, second];
  await holder.ask({ lock: resource });
  while (gaps.length < handovers && performance.now() < until) {
    const waiting = waiter.ask<number>({ lock: resource });
    await sleep(pauseMs());
    const releasedAt = await holder.ask<number>({ unlock: resource });
    gaps.push((await waiting) - releasedAt);
    [holder, waiter] = [waiter, holder];
  }
  await holder.ask({ unlock: resource });
  return gaps;
}
