// Runs many seeds in parallel threads. Seeds are independent, so the parts may run in any order and
// the combined summary is the same as with one thread.

import { Worker } from "node:worker_threads";
import { simHost } from "../host/sim-host.ts";
import { addSummary, emptySummary, runSwarm, type Summary, type SwarmOptions } from "../swarm.ts";

/** A range of seeds for one thread. */
export type Part = Omit<SwarmOptions, "host">;

export interface ThreadsOptions extends Part {
  /** The largest number of threads. */
  readonly jobs: number;
  /** Called after each part with the summary of all parts so far. */
  readonly onPart: (summary: Summary) => void;
}

/**
 * Small enough that all threads end at about the same time, large enough that messages cost little.
 */
const SEEDS_PER_PART = 25;

export async function runInThreads(options: ThreadsOptions): Promise<Summary> {
  const { from, to, jobs, onPart, ...same } = options;
  const total = emptySummary();
  let next = from;
  const nextPart = (): Part | undefined => {
    if (next > to || (same.failFast && total.findings.length > 0)) return undefined;
    const part = { ...same, from: next, to: Math.min(to, next + SEEDS_PER_PART - 1) };
    next = part.to + 1;
    return part;
  };
  const add = (summary: Summary): void => {
    addSummary(total, summary);
    onPart(total);
  };
  const parts = Math.ceil((to - from + 1) / SEEDS_PER_PART);
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

/** Resolves when no part is left. */
async function runThread(
  nextPart: () => Part | undefined,
  add: (summary: Summary) => void,
): Promise<void> {
  const thread = new Worker(new URL("./thread.mjs", import.meta.url));
  try {
    await new Promise<void>((resolve, reject) => {
      const sendNext = (): void => {
        const part = nextPart();
        if (part === undefined) resolve();
        else thread.postMessage(part);
      };
      thread.on("message", (summary: Summary) => {
        add(summary);
        sendNext();
      });
      thread.on("error", reject);
      thread.on("exit", (code) => reject(new Error(`A thread ended with code ${code}.`)));
      sendNext();
    });
  } finally {
    await thread.terminate();
  }
}
