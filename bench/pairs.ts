// Acquire and release without contention, one at a time and 64 in flight, against the baseline of
// the same client library and against the peers.

import { type Baseline, openBaseline, openNodeRedis, openPostgresJs } from "./baselines.ts";
import { type Contestant, compare, type Measured, perSecond } from "./comparison.ts";
import { type Contender, contendersOn, findReason } from "./peers/peers.ts";
import type { Section } from "./results.ts";
import { type Engine, labels } from "./servers.ts";
import type { Context } from "./topic.ts";

/** The share of the baseline that Tenure has to reach, one at a time and with 64 in flight. */
const BASELINE_TARGET = 0.85;
const TTL_MS = 10_000;

interface Unlock {
  (): Promise<unknown>;
  /** What the library's interface returns with this grant, where it returns anything. */
  token?(): unknown;
}

/** A library that takes and frees locks: see bench/peers/libraries. */
export interface Locker {
  lock(resource: string): Promise<Unlock>;
  close(): unknown;
}

export async function openLocker({
  library,
  url,
}: Pick<Contender, "library" | "url">): Promise<Locker> {
  const module = await import(`./peers/libraries/${library}.mjs`);
  return module.locker({ url, ttlMs: TTL_MS });
}

export async function* pairs(context: Context): AsyncGenerator<Section> {
  for (const engine of context.engines) {
    const url = await context.servers.url(engine);
    const contenders = contendersOn(engine, url, context.withPeers);
    yield* measure(context, labels[engine], contenders, () => openBaseline[engine](url));
    const other = otherClients[engine];
    if (other === undefined) continue;
    const { label, library, open } = other;
    const [tenure] = contendersOn(engine, url, false);
    const contender = { ...tenure, url: `${url}?library=${library}` };
    yield* measure(context, label, [contender], () => open(url));
  }
}

/** Client libraries other than the default one. */
const otherClients: Partial<
  Record<Engine, { label: string; library: string; open(url: string): Promise<Baseline> }>
> = {
  redis: { label: "Redis (node-redis)", library: "redis", open: openNodeRedis },
  postgres: { label: "PostgreSQL (postgres.js)", library: "postgres", open: openPostgresJs },
};

async function* measure(
  { quick }: Context,
  label: string,
  contenders: readonly Contender[],
  open: () => Promise<Baseline>,
): AsyncGenerator<Section> {
  const rounds = quick ? 6 : 24;
  const sliceMs = quick ? 50 : 200;
  const baseline = await open();
  const lockers = new Map<Contender, Promise<Locker>>();
  const openOnce = (contender: Contender): Promise<Locker> => {
    const locker = lockers.get(contender) ?? openLocker(contender);
    lockers.set(contender, locker);
    return locker;
  };
  const run = (pair: (index: number) => Promise<unknown>, inFlight: number) => ({
    warmUp: () => measureRate(pair, { inFlight, ms: 5 * sliceMs }),
    measure: async (): Promise<Measured> => ({
      pairs: await measureRate(pair, { inFlight, ms: sliceMs }),
    }),
  });
  try {
    for (const inFlight of [1, 64]) {
      const contestants = contenders
        .filter(({ peer }) => (peer?.inFlightMax ?? inFlight) >= inFlight)
        .map((contender): Contestant => {
          const { name, kind } = contender;
          const pair = async (index: number): Promise<void> => {
            const unlock = await (await openOnce(contender)).lock(`pair-${index}`);
            await unlock();
          };
          // etcd3's Lock makes several requests for each pair.
          const target = kind === "tenure" ? undefined : name === "etcd3" ? 2 : 1;
          return {
            name,
            kind,
            target,
            reason: findReason(contender, "pairs"),
            ...run(pair, inFlight),
          };
        });
      const floor: Contestant = {
        name: "baseline",
        kind: "baseline",
        target: BASELINE_TARGET,
        ...run((index) => baseline.pair(index), inFlight),
      };
      yield await compare({
        title: `${label}: acquire and release, ${inFlight} in flight`,
        method: `${rounds} slices of ${sliceMs} ms, the contestants in turn; ratios within one round.`,
        rounds,
        figures: { pairs: perSecond },
        contestants: [...contestants, floor],
      });
    }
  } finally {
    const open = await Promise.allSettled(lockers.values());
    // A peer that cannot close must not keep the others open.
    for (const each of open)
      if (each.status === "fulfilled") await Promise.allSettled([each.value.close()]);
    await baseline.close();
  }
}

interface Slice {
  readonly inFlight?: number;
  readonly ms: number;
  /** Calls between two readings of the clock, for what takes less than a microsecond. */
  readonly batch?: number;
}

/** How often the act can be done in a second. A synchronous act is not awaited. */
export async function measureRate(
  act: (index: number) => unknown,
  { inFlight = 1, ms, batch = 1 }: Slice,
): Promise<number> {
  const start = performance.now();
  let count = 0;
  const one = async (index: number): Promise<void> => {
    do {
      for (let call = 0; call < batch; call += 1) {
        const result = act(index);
        if (result instanceof Promise) await result;
      }
      count += batch;
    } while (performance.now() - start < ms);
  };
  await Promise.all(Array.from({ length: inFlight }, (_, index) => one(index)));
  return (count * 1_000) / (performance.now() - start);
}
