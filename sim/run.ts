// Runs one seed: creates its plan, runs the world and checks the trace. The same seed on the same
// code always gives the same trace.

import { judge, type Verdict } from "./checkers/judge.ts";
import { applyChanges, type Changes, createPlan, NO_CHANGES, type Plan } from "./faults/plan.ts";
import type { Engine } from "./models/model.ts";
import { type Host, type RunResult, runWorld } from "./world/world.ts";

/** A model is loaded only when it is used. */
const LOADERS: Readonly<Record<string, () => Promise<Engine>>> = {
  memory: async () => (await import("./models/memory/index.ts")).memoryEngine,
  etcd: async () => (await import("./models/etcd/index.ts")).etcdEngine,
  sqlite: async () => (await import("./models/sqlite/index.ts")).sqliteEngine,
  postgres: async () => (await import("./models/postgres/index.ts")).postgresEngine,
  redis: async () => (await import("./models/redis/index.ts")).redisEngine,
  zookeeper: async () => (await import("./models/zookeeper/index.ts")).zookeeperEngine,
};

/** The names that `npm run sim -- --store` accepts. */
export const MODEL_NAMES: readonly string[] = Object.keys(LOADERS);

const loaded = new Map<string, Engine>();

/** Loads a model. Call it before Host.isolate(), because isolation blocks loading. */
export async function loadEngine(store: string): Promise<Engine> {
  const known = loaded.get(store);
  if (known !== undefined) return known;
  const load = LOADERS[store];
  if (load === undefined)
    throw new Error(`There is no model of ${store}. Use one of ${MODEL_NAMES.join(", ")}.`);
  const engine = await load();
  await engine.ready?.();
  loaded.set(store, engine);
  return engine;
}

export interface Outcome {
  readonly plan: Plan;
  readonly result: RunResult;
  readonly verdict: Verdict;
}

export async function runSeed(
  seed: number,
  store: string,
  host: Host,
  changes: Changes = NO_CHANGES,
): Promise<Outcome> {
  const engine = await loadEngine(store);
  const planned = applyChanges(createPlan(seed, store), changes);
  const first = await runWorld(planned, engine, host);
  // Repeat a crash with stack traces, to show where it came from.
  const withStacks = first.crash !== undefined;
  const again = withStacks ? await runWorld(planned, engine, host, { withStacks }) : first;
  const result = again.crash === undefined ? first : again;
  const plan = withActualTimes(planned, result);
  return { plan, result, verdict: judge(plan, result) };
}

/**
 * Replaces the planned phase lengths by the actual ones. A crash may come after the planned end of
 * the faults.
 */
function withActualTimes(plan: Plan, { crash, virtualMs, calmAt, shutdownAt }: RunResult): Plan {
  const crashedAt = crash === undefined ? 0 : Math.ceil(virtualMs) + 1;
  const faultyMs = calmAt ?? Math.max(plan.faultyMs, crashedAt);
  return { ...plan, faultyMs, calmMs: (shutdownAt ?? faultyMs + plan.calmMs) - faultyMs };
}
