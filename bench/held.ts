// Thousands of locks held by one process: requests to the server, CPU time and memory of the
// process, and locks lost, while each library renews in its own way.

import { setTimeout as sleep } from "node:timers/promises";
import { type Contestant, compare, type Figure, type Measured, requests } from "./comparison.ts";
import { type Contender, contendersOn, findReason } from "./peers/peers.ts";
import type { Section } from "./results.ts";
import { type Engine, labels } from "./servers.ts";
import type { Context } from "./topic.ts";
import { Worker } from "./workers.ts";

const HEAP_MAX_BYTES = 1_024;
/** A hundredth of a core. */
const CPU_MAX_SHARE = 0.01;
/** A process that holds nothing uses about 40 ms. */
const cpu: Figure = { unit: "ms", digits: 0, better: "less", noise: 40 };
const memory: Figure = { unit: "MB", digits: 0, better: "less", isInformative: true };
const bytes: Figure = { unit: "bytes", digits: 0, better: "less" };
const locks: Figure = { unit: "locks", digits: 0, better: "less" };

interface Kept {
  readonly cpuMs: number;
  readonly rssMB: number;
  readonly lost: number;
}

interface Plan {
  readonly count: number;
  readonly keepMs: number;
  readonly ttlMs: number;
}

export async function* held(context: Context): AsyncGenerator<Section> {
  const { quick, withPeers, commands, engines, servers } = context;
  const keepMs = quick ? 4_000 : 30_000;
  // At most half of the time, so that every library has to renew.
  const ttlMs = Math.min(10_000, Math.max(3_000, keepMs / 2));
  for (const engine of engines) {
    const server = await servers.counted(engine);
    const contenders = contendersOn(engine, server.url, withPeers, commands).filter(
      ({ peer }) => peer?.cannotHold === undefined,
    );
    for (const count of quick ? [1_000] : [1_000, 10_000]) {
      const plan = { count, keepMs, ttlMs };
      yield await compare({
        title: `${labels[engine]}: ${count.toLocaleString("en")} locks held by one process`,
        method: `Held for ${keepMs / 1_000} s after all were taken, ttl ${ttlMs / 1_000} s. The server counts requests; CPU time and memory are those of the process.`,
        rounds: quick || !withPeers ? 1 : 3,
        figures: toFigures(engine, plan),
        contestants: contenders.map(
          (contender): Contestant => ({
            name: contender.name,
            kind: contender.kind,
            target: findTarget(contender, count),
            reason: findReason(contender, "held"),
            measure: () => measure(contender, plan, server.requests),
          }),
        ),
      });
    }
  }
}

/** With many locks, renewing a session has to cost a fifth of renewing each lock. */
function findTarget({ name, kind }: Contender, count: number): number | undefined {
  if (kind === "tenure") return undefined;
  return name === "redis-semaphore" && count >= 10_000 ? 5 : 1;
}

function toFigures(engine: Engine, { keepMs, ttlMs }: Plan): Record<string, Figure> {
  const renewals = Math.ceil(keepMs / (ttlMs / 3)) + 1;
  return {
    requests: { ...requests, digits: 0, atMost: renewals },
    "CPU time": { ...cpu, atMost: engine === "sqlite" ? keepMs * CPU_MAX_SHARE : undefined },
    memory,
    "heap per lock": { ...bytes, atMost: engine === "sqlite" ? HEAP_MAX_BYTES : undefined },
    lost: { ...locks, atMost: 0 },
  };
}

async function measure(
  { library, url, kind, command }: Contender,
  { count, keepMs, ttlMs }: Plan,
  countRequests: (() => Promise<number>) | undefined,
): Promise<Measured> {
  const options = { execArgv: ["--expose-gc"], command };
  const worker = new Worker("holder.mjs", { library, url, ttlMs }, options);
  try {
    await worker.next();
    const heapBytes = await worker.ask<number>({ holdMany: count });
    // Some servers report their figures late.
    await sleep(1_000);
    const before = await countRequests?.();
    const { cpuMs, rssMB, lost } = await worker.ask<Kept>({ keepMs });
    const after = await countRequests?.();
    return {
      ...(before === undefined || after === undefined ? {} : { requests: after - before }),
      "CPU time": cpuMs,
      memory: rssMB,
      ...(kind === "tenure" ? { "heap per lock": heapBytes } : {}),
      lost,
    };
  } finally {
    await worker.end();
  }
}
