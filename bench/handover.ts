// Handover between two processes on one SQLite file: from the call of release() in one to the end of acquire() in the
// other, by the monotonic clock that all processes of a host share. And what waiting costs while nothing happens.

import type { ChildProcess } from "node:child_process";
import { join } from "node:path";
import { atMost, highEnd, inTempFolder, median, type Section } from "./support.ts";
import { answer, startWorker } from "./workers.ts";

const HANDOVERS = 300;
const IDLE_WAITERS = 8;
const IDLE_MS = 5_000;

interface Turn {
  readonly acquiredAt: number;
  readonly releasedAt: number;
  readonly token: number;
}

export async function handover(): Promise<Section> {
  const gaps = await inTempFolder(pingPong);
  const shares = await inTempFolder(idleWaiters);
  const ms = (value: number): string => `${value.toFixed(2)} ms`;
  const percent = (value: number): string => `${(value * 100).toFixed(2)} % of a core`;
  const worst = highEnd(gaps);
  return {
    title: "Handover between two processes (SQLite)",
    method: `${HANDOVERS} handovers; ${IDLE_WAITERS} idle waiters watched for ${IDLE_MS / 1000} s, their renewals included.`,
    rows: [
      { what: "handover p50", measured: ms(median(gaps)) },
      atMost(`handover ${worst.name}`, worst.value, 25, ms),
      { what: "idle waiter, median", measured: percent(median(shares)) },
      atMost("idle waiter, worst", Math.max(...shares), 0.005, percent),
    ],
  };
}

async function pingPong(folder: string): Promise<number[]> {
  const store = `sqlite:${join(folder, "tenure.db")}`;
  const workers = [start("ping", store), start("pong", store)];
  const turns = (
    await Promise.all(workers.map((worker) => answer<Turn[]>(worker, { turns: HANDOVERS / 2 })))
  ).flat();
  for (const worker of workers) worker.kill();
  turns.sort((a, b) => a.token - b.token);
  return turns
    .slice(1)
    .map((turn, index) => turn.acquiredAt - (turns[index]?.releasedAt ?? Number.NaN));
}

async function idleWaiters(folder: string): Promise<number[]> {
  const store = `sqlite:${join(folder, "tenure.db")}`;
  const holder = start("holder", store);
  await answer(holder, { hold: true });
  const waiters = Array.from({ length: IDLE_WAITERS }, (_, index) =>
    start(`waiter ${index}`, store),
  );
  const shares = await Promise.all(
    waiters.map((waiter) => answer<number>(waiter, { idleMs: IDLE_MS })),
  );
  for (const child of [holder, ...waiters]) child.kill();
  return shares;
}

function start(name: string, store: string): ChildProcess {
  return startWorker("waiter.mjs", name, store);
}
