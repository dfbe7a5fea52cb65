// Several processes on one lock, each taking and freeing it with an empty critical section: how
// many locks they take per second, how evenly, and what that asks of the server. One process alone
// is also compared with the round trips that a grant and a release take.

import { type Baseline, openBaseline } from "./baselines.ts";
import {
  type Contestant,
  compare,
  type Figure,
  type Measured,
  milliseconds,
  perSecond,
  requests,
} from "./comparison.ts";
import { measureRate } from "./pairs.ts";
import type { Section } from "./results.ts";
import type { Engine } from "./servers.ts";
import { labels } from "./servers.ts";
import { sum } from "./statistics.ts";
import { type Context, toContestants, withKeptLockers } from "./topic.ts";
import { newResource, type Worker } from "./workers.ts";

/** The release is not awaited, so one process has to be faster than two bare round trips. */
const BASELINE_TARGET = 1.3;
/** On SQLite both are commits. */
const SQLITE_TARGET = 1.1;
/** An acquisition and a release; what remains is for renewals, watches and reads of the queue. */
const REQUESTS_MAX: Readonly<Record<Engine, number>> = {
  sqlite: 3,
  postgres: 3,
  redis: 3,
  etcd: 4,
  zookeeper: 5,
};

/** Equal shares are 1; a tenth is chance. */
const share: Figure = { unit: "x", digits: 2, better: "less", noise: 0.1 };

interface Contended {
  /** In the time given. */
  readonly locks: number;
  /** Also those after the end. */
  readonly taken: number;
  readonly longestMs: number;
}

export async function* contention(context: Context): AsyncGenerator<Section> {
  const { quick, engines, servers } = context;
  const contendMs = quick ? 300 : 2_000;
  for (const engine of engines) {
    const url = await servers.url(engine);
    for (const count of quick ? [1, 2] : [1, 2, 8]) {
      // Alone on the lock, a library without a queue has no advantage by that.
      const topic = count === 1 ? "pairs" : "contention";
      const target = { engine, url, topic, allLanguages: true } as const;
      const contestants = toContestants(context, target, (contender) =>
        withKeptLockers(
          contender,
          { count, quick },
          { ms: contendMs, act: async (workers, ms) => toRates(await contend(workers, ms), ms) },
        ),
      );
      const baseline = count === 1 ? await openBaseline[engine](url) : undefined;
      yield await compare({
        title: `${labels[engine]}: ${count === 1 ? "one process" : `${count} processes`} on one lock`,
        method: `An empty critical section, for ${contendMs} ms; withLease() of Tenure. Each library waits in its own way. The processes stay for all rounds; those on a JVM warm up for longer.${count === 1 ? " The baseline is two plain writes (SET, upsert, transaction, create and delete) of the same client." : ""}`,
        rounds: 3,
        figures: {
          "locks taken": perSecond,
          ...(count === 1
            ? {}
            : { "busiest/slowest process": share, "longest wait": milliseconds }),
        },
        contestants: [
          ...contestants,
          ...(baseline === undefined ? [] : [twoWrites(baseline, { engine, ms: contendMs })]),
        ],
      });
    }
  }
}

/** What the locks of `contention` ask of the server. */
export async function* requestsPerLock(context: Context): AsyncGenerator<Section> {
  const { quick, engines, servers } = context;
  const contendMs = quick ? 300 : 1_500;
  for (const engine of engines) {
    const server = await servers.counted(engine);
    const { requests: count } = server;
    if (count === undefined) continue;
    const atMost = REQUESTS_MAX[engine];
    for (const processes of quick ? [2] : [1, 2, 8]) {
      const target = { engine, url: server.url, topic: "requests", allLanguages: true } as const;
      yield await compare({
        title: `${labels[engine]}: requests for one lock, ${processes === 1 ? "one process" : `${processes} processes`}`,
        method: `All requests of ${contendMs} ms, counted at the server, divided by the locks taken. Renewals, subscriptions and watches count.`,
        rounds: 3,
        // A renewal falls into the round of one contestant or another.
        figures: { requests: { ...requests, digits: 2, noise: 0.05, atMost } },
        contestants: toContestants(context, target, (contender) =>
          withKeptLockers(
            contender,
            { count: processes, quick: true },
            {
              ms: contendMs,
              act: async (workers, ms) => {
                const before = await count();
                const found = await contend(workers, ms);
                return { requests: ((await count()) - before) / sum(found.map((f) => f.taken)) };
              },
            },
          ),
        ),
      });
    }
  }
}

function contend(workers: readonly Worker[], contendMs: number): Promise<Contended[]> {
  const order = { contend: newResource(), contendMs };
  return Promise.all(workers.map((worker) => worker.ask<Contended>(order)));
}

function toRates(found: readonly Contended[], ms: number): Measured {
  const locks = found.map((each) => each.locks);
  return {
    "locks taken": (sum(locks) * 1_000) / ms,
    // A process that took none counts as one that took one.
    "busiest/slowest process": Math.max(1, ...locks) / Math.max(1, Math.min(...locks)),
    "longest wait": Math.max(...found.map(({ longestMs }) => longestMs)),
  };
}

function twoWrites(
  baseline: Baseline,
  { engine, ms }: { readonly engine: Engine; readonly ms: number },
): Contestant {
  const pair = (index: number): Promise<void> => (baseline.plainPair ?? baseline.pair)(index);
  return {
    name: "two plain writes",
    kind: "baseline",
    target: engine === "sqlite" ? SQLITE_TARGET : BASELINE_TARGET,
    warmUp: () => measureRate(pair, { ms: 500 }),
    measure: async () => ({ "locks taken": await measureRate(pair, { ms }) }),
    close: () => baseline.close(),
  };
}
