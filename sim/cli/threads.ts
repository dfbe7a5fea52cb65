// Many seeds on all cores. Every seed is a world of its own, so that the parts can run in any order; their sums and their
// findings are the same as from one thread.

import { Worker } from "node:worker_threads";
import { simHost } from "../host/sim-host.ts";
import { addSummary, emptySummary, runSwarm, type Summary, type SwarmOptions } from "../swarm.ts";

/** One order to a thread. */
export type Part = Omit<SwarmOptions, "host">;

export interface ThreadsOptions extends Part {
  /** At most so many threads. */
  readonly jobs: number;
  /** After each part: how many seeds are through, of all parts together. */
  readonly onPart: (summary: Summary) => void;
}

/** Few enough that the threads end together, and enough that their talk does not count. */
const SEEDS_A_PART = 25;

export async function runInThreads(options: ThreadsOptions): Promise<Summary> {
  const { from, to, jobs, onPart, ...same } = options;
  const total = emptySummary();
  let next = from;
  const nextPart = (): Part | undefined => {
    if (next > to || (same.failFast && total.findings.length > 0)) return undefined;
    const part = { ...same, from: next, to: Math.min(to, next + SEEDS_A_PART - 1) };
    next = part.to + 1;
    return part;
  };
  const add = (summary: Summary): void => {
    addSummary(total, summary);
    onPart(total);
  };
  const parts = Math.ceil((to - from + 1) / SEEDS_A_PART);
  // A single part finishes before a thread has started.
  if (jobs === 1 || parts === 1) await runHere(nextPart, add);
  else
    await Promise.all(
      Array.from({ length: Math.min(jobs, parts) }, () => runThread(nextPart, add)),
    );
  total.findings.sort((one, other) => one.seed - other.seed);
  return total;
}

async function runHere(
  nextPart: () => Part | undefined,
  add: (summary: Summary) => void,
): Promise<void> {
  for (let part = nextPart(); part !== undefined; part = nextPart())
    add(await runSwarm({ ...part, host: simHost }));
}

/** Resolves when there is no part left for it. */
async function runThread(
  nextPart: () => Part | undefined,
  add: (summary: Summary) => void,
): Promise<void> {
  const thread = new Worker(new URL("./thread.mjs", import.meta.url));
  try {
    await new Promise<void>((resolve, reject) => {
      const order = (): void => {
        const part = nextPart();
        if (part === undefined) resolve();
        else thread.postMessage(part);
      };
      thread.on("message", (summary: Summary) => {
        add(summary);
        order();
      });
      thread.on("error", reject);
      thread.on("exit", (code) => reject(new Error(`A thread ended with code ${code}.`)));
      order();
    });
  } finally {
    await thread.terminate();
  }
}
