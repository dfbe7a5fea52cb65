// One lane: a holder process, its successor (this process), one resource, trials one after the other. In each the holder
// writes in a busy loop, is stopped (or cut off from the store, or stopped with writes in the buffers of its sockets) past
// its ttl, the successor takes over and writes, and the first goes on. What the resource took afterwards is counted.

import { type ChildProcess, spawn } from "node:child_process";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { connect, type Tenure } from "../../src/index.ts";
import { sqliteStore } from "../../src/stores/sqlite/index.ts";
import { until } from "../../test/servers/ask.ts";
import { continueTree, stopTree } from "../../test/servers/process-tree.mjs";
import { writeLockIsFree } from "../../test/support/process/process-file.ts";
import { type Order, RESOURCE, type Setting, TIMING, type Told } from "./messages.ts";
import type { Ground } from "./resources.ts";
import { openWriter, type Place, type Writer } from "./writers.ts";

/** Writes of the former holder after its successor has written, in every trial, besides those in buffers. */
const LATE_WRITES = 20;
const SILENCE_MAX_MS = 60_000;
const HOLDER = fileURLToPath(new URL("./holder.ts", import.meta.url));
const ROOT = fileURLToPath(new URL("../..", import.meta.url));

export interface LaneResult {
  /** From the first trial to the last. */
  readonly seconds: number;
  readonly staleTried: number;
  readonly staleAccepted: number;
}

export interface LanePlan {
  readonly folder: string;
  readonly place: Pick<Place, "resource" | "name" | "isGuarded">;
  readonly ground: Ground;
  readonly trials: number;
}

type Fault = "stopped" | "cut off" | "stopped with full buffers";

export async function runLane(plan: LanePlan): Promise<LaneResult> {
  const { folder, ground } = plan;
  mkdirSync(folder, { recursive: true });
  const leases = join(folder, "leases.db");
  const tenure = await connect(sqliteStore({ file: leases }));
  const writer = await openWriter[plan.place.resource]({
    ...plan.place,
    at: ground.at,
    isStopped: false,
  });
  const holder = new Holder({
    leases,
    place: { ...plan.place, at: ground.holderAt, isStopped: true },
  });
  const locks = [leases, ...ground.locks];
  const lane: Lane = { holder, tenure, writer, locks, ground, isGuarded: plan.place.isGuarded };
  const faults: Fault[] =
    ground.proxy === undefined
      ? ["stopped", "cut off"]
      : ["stopped", "cut off", "stopped with full buffers"];
  let refused = 0;
  try {
    await holder.heard("ready");
    const begunAt = performance.now();
    for (let index = 0; index < plan.trials; index += 1) {
      refused += await trial(lane, faults[index % faults.length] ?? "stopped");
    }
    const seconds = (performance.now() - begunAt) / 1_000;
    const staleAccepted = countStale(await ground.tokens());
    return { seconds, staleTried: refused + staleAccepted, staleAccepted };
  } finally {
    holder.kill();
    await writer.close();
    await tenure.close();
  }
}

interface Lane {
  readonly holder: Holder;
  readonly tenure: Tenure;
  readonly writer: Writer;
  readonly locks: readonly string[];
  readonly ground: Ground;
  readonly isGuarded: boolean;
}

/** How many of its writes the former holder was refused. */
async function trial(lane: Lane, fault: Fault): Promise<number> {
  const { holder, tenure, writer, ground } = lane;
  holder.say({ do: "begin", paceMs: fault === "cut off" ? 5 : (ground.paceMs ?? 0) });
  await holder.heard("warm");
  const granted = tenure.acquire(RESOURCE, { ...TIMING, waitMs: SILENCE_MAX_MS });
  if (fault === "cut off") holder.say({ do: "cut" });
  if (fault === "stopped with full buffers") {
    const { proxy } = ground;
    const sent = (): number => proxy?.counts().requests.chunks ?? 0;
    const before = sent();
    proxy?.hold("requests");
    // Until some of its writes are held, then long enough for its loops to have all of them under way.
    await until("writes are in the buffers", async () => sent() > before, SILENCE_MAX_MS);
    await sleep(30);
  }
  if (fault !== "cut off") await stopOutsideLocks(holder.pid, lane.locks);
  const lease = await granted;
  // With the bare facts: what the successor's own clock says is not what is tested here.
  const successor = { resource: RESOURCE, token: lease.token };
  if (lane.isGuarded) await writer.advance(successor);
  await writer.write(successor);
  if (fault === "stopped with full buffers") {
    // They arrive while their sender is still stopped: no check of its own can help any more.
    await ground.proxy?.heal();
    await sleep(30);
  }
  if (fault !== "cut off") continueTree(holder.pid);
  holder.say({ do: "finish", attempts: LATE_WRITES });
  const { refused, failure } = await holder.heard("finished");
  if (lane.isGuarded && refused === 0) throw new Error(`No late write was refused. ${failure}`);
  await lease.release();
  return refused;
}

/** A write is stale when a larger token was written before it. */
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

/** Whatever ends this process ends them too, stopped or not. */
const holders = new Set<Holder>();
process.once("exit", () => {
  for (const holder of holders) holder.kill();
});

/** The process of the holder. */
class Holder {
  readonly #process: ChildProcess;
  readonly #told: Told[] = [];
  #look: () => void = () => undefined;
  #exit: string | undefined;

  constructor(setting: Setting) {
    const args = ["--import", "tsx", HOLDER, JSON.stringify(setting)];
    this.#process = spawn(process.execPath, args, {
      cwd: ROOT,
      stdio: ["ignore", "inherit", "inherit", "ipc"],
    });
    this.#process.on("message", (told: Told) => {
      this.#told.push(told);
      this.#look();
    });
    this.#process.on("exit", (code, signal) => {
      this.#exit = String(code ?? signal);
      this.#look();
    });
    holders.add(this);
  }

  get pid(): number {
    return this.#process.pid ?? Number.NaN;
  }

  say(order: Order): void {
    this.#process.send(order);
  }

  kill(): void {
    holders.delete(this);
    if (this.#exit === undefined) this.#process.kill("SIGKILL");
  }

  /** The next message of this kind; those before it are forgotten. */
  heard<E extends Told["event"]>(event: E): Promise<Extract<Told, { event: E }>> {
    return new Promise((resolve, reject) => {
      const end = (): void => {
        clearTimeout(timer);
        this.#look = () => undefined;
      };
      const timer = setTimeout(() => {
        end();
        reject(new Error(`The holder did not say "${event}" in time.`));
      }, SILENCE_MAX_MS);
      this.#look = () => {
        const index = this.#told.findIndex((told) => told.event === event);
        if (index >= 0) {
          end();
          resolve(this.#told.splice(0, index + 1).at(-1) as Extract<Told, { event: E }>);
        } else if (this.#exit !== undefined) {
          end();
          reject(new Error(`The holder ended (${this.#exit}) before it said "${event}".`));
        }
      };
      this.#look();
    });
  }
}
