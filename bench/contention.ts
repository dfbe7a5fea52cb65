// Several processes on one lock: how many locks they take per second, all together.

import { compare, perSecond } from "./comparison.ts";
import type { Section } from "./results.ts";
import { labels } from "./servers.ts";
import { sum } from "./statistics.ts";
import { type Context, toContestants } from "./topic.ts";
import { newResource, type Target, withLockers } from "./workers.ts";

export async function* contention(context: Context): AsyncGenerator<Section> {
  const { quick, engines, servers } = context;
  const contendMs = quick ? 300 : 2_000;
  for (const engine of engines) {
    const target = { engine, url: await servers.url(engine), topic: "contention" } as const;
    for (const count of quick ? [2] : [2, 8, 32]) {
      yield await compare({
        title: `${labels[engine]}: ${count} processes on one lock`,
        method: `Each takes and frees it for ${contendMs} ms, and waits as its library does.`,
        rounds: quick ? 1 : 3,
        figures: { "locks taken": perSecond },
        contestants: toContestants(context, target, async (contender) => ({
          "locks taken": await measureLocks(contender, count, contendMs),
        })),
      });
    }
  }
}

function measureLocks(target: Target, count: number, contendMs: number): Promise<number> {
  return withLockers(target, { count }, async (workers) => {
    const order = { contend: newResource(), contendMs };
    const locks = await Promise.all(workers.map((worker) => worker.ask<number>(order)));
    return (sum(locks) * 1_000) / contendMs;
  });
}
