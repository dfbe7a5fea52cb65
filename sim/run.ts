// One seed, from its number to the verdict. The same seed on the same code gives the same day, to the last digit.

import { judge, type Verdict } from "./checkers/judge.ts";
import { type Changes, changed, type Plan, planOf, UNCHANGED } from "./faults/plan.ts";
import type { Engine } from "./models/model.ts";
import { type Ended, type Host, liveThrough } from "./world/world.ts";

/** Each model is loaded when it is asked for. */
const LOADERS: Readonly<Record<string, () => Promise<Engine>>> = {
  memory: async () => (await import("./models/memory/index.ts")).memoryEngine,
  etcd: async () => (await import("./models/etcd/index.ts")).etcdEngine,
  sqlite: async () => (await import("./models/sqlite/index.ts")).sqliteEngine,
  postgres: async () => (await import("./models/postgres/index.ts")).postgresEngine,
  redis: async () => (await import("./models/redis/index.ts")).redisEngine,
  zookeeper: async () => (await import("./models/zookeeper/index.ts")).zookeeperEngine,
};

/** The stores that there is a model of, by the name that `npm run sim -- --store` takes. */
export const MODEL_NAMES: readonly string[] = Object.keys(LOADERS);

const loaded = new Map<string, Engine>();

/** Ready for a world. To be awaited before one is closed: from inside, nothing can be loaded. */
export async function loadEngine(store: string): Promise<Engine> {
  const known = loaded.get(store);
  if (known !== undefined) return known;
  const load = LOADERS[store];
  if (load === undefined) throw new Error(`There is no model of ${store}.`);
  const engine = await load();
  await engine.ready?.();
  loaded.set(store, engine);
  return engine;
}

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
  const engine = await loadEngine(store);
  const planned = changed(planOf(seed, store), changes);
  const first = await liveThrough(planned, engine, host);
  // The same again, to see where it came from.
  const withStacks = first.crash !== undefined;
  const again = withStacks ? await liveThrough(planned, engine, host, { withStacks }) : first;
  const ended = again.crash === undefined ? first : again;
  const plan = asItWas(planned, ended);
  return { plan, ended, verdict: judge(plan, ended) };
}

/** With the instants that came about while it ran. A day that crashed may have been faulty for longer than planned. */
function asItWas(plan: Plan, { crash, virtualMs, calmAt, eveningAt }: Ended): Plan {
  const crashedAt = crash === undefined ? 0 : Math.ceil(virtualMs) + 1;
  const faultyMs = calmAt ?? Math.max(plan.faultyMs, crashedAt);
  return { ...plan, faultyMs, calmMs: (eveningAt ?? faultyMs + plan.calmMs) - faultyMs };
}
