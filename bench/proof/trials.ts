// Trials with one holder process, its successor (this process) and one resource, one after the
// other. In each, the holder writes in a busy loop and is stopped past its ttl, or is cut off from
// the store, or is stopped with writes in the buffers of its sockets. The successor takes over and
// writes, then the holder continues. Counts which of the holder's late writes the resource
// accepted.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { connect, type Tenure } from "../../src/index.ts";
import { sqliteStore } from "../../src/stores/sqlite/index.ts";
import { until } from "../../test/servers/ask.ts";
import { continueTree, stopTree } from "../../test/servers/process-tree.mjs";
import { writeLockIsFree } from "../../test/support/process/process-file.ts";
import { compile } from "../compile.ts";
import { Worker } from "../workers.ts";
import { type HolderSettings, type Order, RESOURCE, type Report, TIMING } from "./messages.ts";
import type { OpenResource } from "./resources.ts";
import { openWriter, type Writer, type WriterSettings } from "./writers.ts";

/** Late writes of the holder in every trial, besides those in buffers. */
const LATE_WRITES = 20;
const SILENCE_MAX_MS = 60_000;
const HOLDER = new URL("./holder.ts", import.meta.url);

export interface TrialCounts {
  /** From the first trial to the last. */
  readonly seconds: number;
  readonly staleTried: number;
  readonly staleAccepted: number;
}

export interface TrialPlan {
  readonly folder: string;
  readonly writer: Pick<WriterSettings, "resource" | "name" | "isGuarded">;
  readonly resource: OpenResource;
  readonly trials: number;
}

type Fault = "stopped" | "cut off" | "stopped with full buffers";

interface Trial {
  readonly holder: Holder;
  readonly tenure: Tenure;
  readonly writer: Writer;
  readonly locks: readonly string[];
  readonly resource: OpenResource;
  readonly isGuarded: boolean;
}

export async function runTrials(plan: TrialPlan): Promise<TrialCounts> {
  const { folder, resource, trials } = plan;
  const { isGuarded, resource: name } = plan.writer;
  mkdirSync(folder, { recursive: true });
  const leases = join(folder, "leases.db");
  const tenure = await connect(sqliteStore({ file: leases }));
  const writer = await openWriter[name]({ ...plan.writer, at: resource.at, isStopped: false });
  const holder = new Holder(await compile(HOLDER), {
    leases,
    writer: { ...plan.writer, at: resource.holderAt, isStopped: true },
  });
  const locks = [leases, ...resource.locks];
  const trial: Trial = { holder, tenure, writer, locks, resource, isGuarded };
  const faults: Fault[] = ["stopped", "cut off"];
  if (resource.proxy !== undefined) faults.push("stopped with full buffers");
  let refused = 0;
  try {
    await holder.heard("ready");
    const startedAt = performance.now();
    for (let index = 0; index < trials; index += 1)
      refused += await runTrial(trial, faults[index % faults.length] ?? "stopped");
    const seconds = (performance.now() - startedAt) / 1_000;
    const staleAccepted = countStale(await resource.tokens());
    return { seconds, staleTried: refused + staleAccepted, staleAccepted };
  } finally {
    await holder.end();
    await writer.close();
    await tenure.close();
  }
}

/** Returns how many of its writes the former holder was refused. */
async function runTrial(trial: Trial, fault: Fault): Promise<number> {
  const { holder, tenure, writer, resource, isGuarded } = trial;
  holder.say({ do: "begin", paceMs: fault === "cut off" ? 5 : (resource.paceMs ?? 0) });
  await holder.heard("warm");
  const granted = tenure.acquire(RESOURCE, { ...TIMING, waitMs: SILENCE_MAX_MS });
  if (fault === "cut off") holder.say({ do: "cut" });
  if (fault === "stopped with full buffers") await fillBuffers(resource);
  if (fault !== "cut off") await stopOutsideLocks(holder.pid, trial.locks);
  const lease = await granted;
  // Only the token, not the lease: the successor's check of its own deadline is not tested here.
  const successor = { resource: RESOURCE, token: lease.token };
  if (isGuarded) await writer.advance(successor);
  await writer.write(successor);
  if (fault === "stopped with full buffers") {
    // The writes arrive while their sender is still stopped, so no check of its own can prevent
    // them.
    await resource.proxy?.heal();
    await sleep(30);
  }
  if (fault !== "cut off") continueTree(holder.pid);
  holder.say({ do: "finish", attempts: LATE_WRITES });
  const { refused, failure } = await holder.heard("finished");
  if (isGuarded && refused === 0) throw new Error(`No late write was refused. ${failure}`);
  await lease.release();
  return refused;
}

/** Holds back what the holder sends, until all of its loops have a write in flight. */
async function fillBuffers({ proxy }: OpenResource): Promise<void> {
  const sent = (): number => proxy?.counts().requests.chunks ?? 0;
  const before = sent();
  proxy?.hold("requests");
  await until("writes are in the buffers", async () => sent() > before, SILENCE_MAX_MS);
  await sleep(30);
}

/** A write is stale if a larger token was written before it. */
export function countStale(tokens: readonly bigint[]): number {
  let highest = 0n;
  let stale = 0;
  for (const token of tokens) {
    if (token < highest) stale += 1;
    else highest = token;
  }
  return stale;
}

async function stopOutsideLocks(pid: number, files: readonly string[]): Promise<void> {
  const giveUpAt = performance.now() + SILENCE_MAX_MS;
  for (;;) {
    await stopTree(pid);
    if (files.every(writeLockIsFree)) return;
    continueTree(pid);
    if (performance.now() > giveUpAt) throw new Error("The holder is always inside a lock.");
    await sleep(1);
  }
}

class Holder {
  readonly #worker: Worker;

  constructor(program: URL, settings: HolderSettings) {
    this.#worker = new Worker(program, settings);
  }

  get pid(): number {
    return this.#worker.process.pid ?? Number.NaN;
  }

  say(order: Order): void {
    this.#worker.send(order);
  }

  end(): Promise<void> {
    return this.#worker.end();
  }

  /** The next report of this kind; earlier reports are skipped. */
  async heard<E extends Report["event"]>(event: E): Promise<Extract<Report, { event: E }>> {
    for (;;) {
      const report = await this.#worker.next<Report>(SILENCE_MAX_MS);
      if (report.event === event) return report as Extract<Report, { event: E }>;
    }
  }
}
