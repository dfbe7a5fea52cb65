// What it costs to ask a lock that is held whether it is still held, against one reading of the
// clock. Each contestant is a process of its own, on Redis because most peers run there; the answer
// needs no server.

import { type Contestant, compare, type Figure, type Measured, nanoseconds } from "./comparison.ts";
import { contendersOn } from "./peers/peers.ts";
import type { Section } from "./results.ts";
import type { Context } from "./topic.ts";
import { newResource, type Target, Worker } from "./workers.ts";

const TTL_MS = 600_000;
/** check() may take 2.5 readings of the clock. */
const BASELINE_TARGET = 0.4;
const ALLOCATED_MAX_BYTES = 0.1;
const FLAG =
  "does less: reads a flag that a timer of the same process sets, so it is wrong after a pause";
const bytes: Figure = { unit: "bytes", digits: 2, better: "less" };

export async function* check({ quick, withPeers, servers }: Context): AsyncGenerator<Section> {
  const calls = quick ? 200_000 : 2_000_000;
  const contenders = contendersOn("redis", await servers.url("redis"), withPeers).filter(
    ({ peer }) => peer?.cannotHold === undefined,
  );
  const [tenure] = contenders;
  if (tenure === undefined) return;
  yield await compare({
    title: "check()",
    method: `${calls.toLocaleString("en")} calls a round: lease.check() of Tenure, signal.aborted or isAcquired of the peers. Tenure reads two clocks, because one of them may stand still while the machine sleeps. Allocated is what check() allocates beyond two bare readings.`,
    rounds: quick ? 3 : 9,
    figures: { time: nanoseconds, allocated: { ...bytes, atMost: ALLOCATED_MAX_BYTES } },
    contestants: [
      ...contenders.map(
        (contender): Contestant => ({
          name: contender.name,
          kind: contender.kind,
          reason: FLAG,
          measure: () => measure(contender, { check: calls }),
        }),
      ),
      {
        name: "performance.now()",
        kind: "baseline",
        target: BASELINE_TARGET,
        measure: async () => {
          const { time = Number.NaN } = await measure(tenure, { clock: calls });
          return { time };
        },
      },
    ],
  });
}

async function measure({ library, url }: Target, order: object): Promise<Measured> {
  const settings = { library, url, ttlMs: TTL_MS };
  const worker = new Worker("holder.mjs", settings, { execArgv: ["--expose-gc"] });
  try {
    await worker.next();
    await worker.ask({ hold: [newResource()] });
    // The first calls are compiled while they run.
    await worker.ask(order);
    return await worker.ask<Measured>(order);
  } finally {
    await worker.end();
  }
}
