// One seed, from its number to the verdict. The same seed on the same code gives the same day, to the last digit.

import { judge, type Verdict } from "./judge.ts";
import { type Changes, changed, type Plan, planOf, UNCHANGED } from "./plan.ts";
import { etcdEngine } from "./stores/etcd.ts";
import { memoryEngine } from "./stores/memory.ts";
import type { Engine } from "./stores/model.ts";
import { postgresEngine } from "./stores/postgres.ts";
import { redisEngine } from "./stores/redis.ts";
import { sqliteEngine } from "./stores/sqlite.ts";
import { zookeeperEngine } from "./stores/zookeeper.ts";
import { type Ended, type Host, liveThrough } from "./world.ts";

/** The stores that there is a model of, by the name that `tenure sim --store` takes. */
export const ENGINES: Readonly<Record<string, Engine>> = {
  memory: memoryEngine,
  etcd: etcdEngine,
  sqlite: sqliteEngine,
  postgres: postgresEngine,
  redis: redisEngine,
  zookeeper: zookeeperEngine,
};

export interface Outcome {
  readonly plan: Plan;
  readonly ended: Ended;
  readonly verdict: Verdict;
}

export async function runSeed(
  seed: number,
  store: string,
  host: Host,
  changes: Changes = UNCHANGED,
): Promise<Outcome> {
  const engine = ENGINES[store];
  if (engine === undefined) throw new Error(`There is no model of ${store}.`);
  await engine.ready?.();
  const planned = changed(planOf(seed, store), changes);
  const ended = await liveThrough(planned, engine, host);
  const plan = asItWas(planned, ended);
  return { plan, ended, verdict: judge(plan, ended) };
}

/** With the instants that came about while it ran. */
function asItWas(plan: Plan, { calmAt = plan.faultyMs, eveningAt }: Ended): Plan {
  return { ...plan, faultyMs: calmAt, calmMs: (eveningAt ?? calmAt + plan.calmMs) - calmAt };
}
