// Many waiters on one lock: what they request from the server and what CPU time they use while
// another process holds it, and how many requests a handover takes when the lock goes from one to
// the next.

import { setTimeout as sleep } from "node:timers/promises";
import { compare, type Figure, type Measured, requests } from "./comparison.ts";
import type { Contender } from "./peers/peers.ts";
import type { Section } from "./results.ts";
import { labels } from "./servers.ts";
import { median, sum } from "./statistics.ts";
import { type Context, toContestants } from "./topic.ts";
import { newResource, withLockers } from "./workers.ts";

const HOLD_MS = 10;
/** By then all of them wait, and starting up is over. */
const SETTLE_MS = 1_500;
const CPU_MAX_PERCENT = 0.5;
/** Each process renews its session three times in a ttl of 10 s, and a renewal may be repeated. */
const REQUESTS_MAX_PER_PROCESS = 0.45;

interface Plan {
  readonly processes: number;
  readonly waiters: number;
  readonly idleMs: number;
}

interface Turns {
  readonly turns: number;
  /** Of one core, while the process only waited. */
  readonly cpuShare: number;
}

export async function* waiters(context: Context): AsyncGenerator<Section> {
  const { quick, engines, servers } = context;
  const plan: Plan = quick
    ? { processes: 2, waiters: 6, idleMs: 500 }
    : { processes: 10, waiters: 100, idleMs: 3_000 };
  for (const engine of engines) {
    const server = await servers.counted(engine);
    const isSqlite = engine === "sqlite";
    const cpu: Figure = { unit: "% of a core", digits: 2, better: "less", isInformative: true };
    const atMost = (plan.processes + 1) * REQUESTS_MAX_PER_PROCESS;
    const counted = { "a second of waiting": { ...requests, atMost }, "one handover": requests };
    yield await compare({
      title: `${labels[engine]}: ${plan.waiters} waiters on one lock`,
      method: `${plan.processes} processes with ${plan.waiters / plan.processes} waiters each. Each waiter then holds the lock for ${HOLD_MS} ms.`,
      rounds: quick ? 1 : 3,
      figures: {
        ...(isSqlite ? {} : counted),
        "CPU of a waiting process": { ...cpu, atMost: isSqlite ? CPU_MAX_PERCENT : undefined },
      },
      contestants: toContestants(
        context,
        { engine, url: server.url, topic: "waiters", allLanguages: true },
        (contender) => ({ measure: () => measure(contender, plan, server.requests) }),
      ),
    });
  }
}

function measure(
  contender: Contender,
  { processes, waiters: count, idleMs }: Plan,
  countRequests: () => Promise<number> = async () => 0,
): Promise<Measured> {
  return withLockers(contender, { count: processes + 1 }, async ([holder, ...others]) => {
    const resource = newResource();
    await holder.ask({ lock: resource });
    const order = { queue: resource, count: count / processes, holdMs: HOLD_MS };
    const window = { afterMs: SETTLE_MS, forMs: idleMs };
    const queued = others.map((worker) => worker.ask<Turns>({ ...order, window }));
    await sleep(SETTLE_MS);
    const [before, startedAt] = [await countRequests(), performance.now()];
    await sleep(idleMs);
    const [waited, seconds] = [await countRequests(), (performance.now() - startedAt) / 1_000];
    await holder.ask({ unlock: resource });
    const done = await Promise.all(queued);
    const after = await countRequests();
    return {
      "a second of waiting": (waited - before) / seconds,
      "one handover": (after - waited) / sum(done.map(({ turns }) => turns)),
      "CPU of a waiting process": median(done.map(({ cpuShare }) => cpuShare)) * 100,
    };
  });
}
