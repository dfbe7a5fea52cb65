// Worker processes of the benchmarks and safety trials. A Worker is forked and answers one order at
// a time over IPC. A Child (test/support/process) writes its events synchronously, which a trial
// that stops its worker needs. Both kinds are killed when this process ends.

import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import { Child } from "../test/support/process/child.ts";

const ROOT = fileURLToPath(new URL("../", import.meta.url));
const ERRORS_MAX = 10_000;
const living = new Set<{ signal(signal: NodeJS.Signals): void }>();
process.once("exit", endWorkers);

interface WorkerOptions {
  /** Arguments for node. */
  readonly execArgv?: readonly string[] | undefined;
}

export class Worker {
  readonly process: ChildProcess;
  readonly #messages: unknown[] = [];
  #errors = "";
  #hasEnded = false;
  #notify: () => void = () => undefined;

  /** `program`: the name of a file in bench/workers, or a URL. */
  constructor(program: string | URL, settings: object, { execArgv = [] }: WorkerOptions = {}) {
    const url = program instanceof URL ? program : new URL(`./workers/${program}`, import.meta.url);
    this.process = fork(fileURLToPath(url), [JSON.stringify(settings)], {
      execArgv: [...execArgv],
      stdio: ["inherit", "inherit", "pipe", "ipc"],
    });
    living.add(this);
    this.process.on("message", (message) => {
      this.#messages.push(message);
      this.#notify();
    });
    // "close", not "exit": by then every message has been read.
    this.process.once("close", () => {
      living.delete(this);
      this.#hasEnded = true;
      this.#notify();
    });
    this.process.stderr?.on("data", (chunk: Buffer) => {
      process.stderr.write(chunk);
      // The first lines name the error.
      if (this.#errors.length < ERRORS_MAX) this.#errors += chunk;
    });
  }

  send(order: object): void {
    this.process.send(order);
  }

  /** The next message; rejects when the worker ends, or sends none in time. */
  next<T>(limitMs: number = Number.POSITIVE_INFINITY): Promise<T> {
    return new Promise((resolve, reject) => {
      const stop = (): void => {
        clearTimeout(timer);
        this.#notify = () => undefined;
      };
      const giveUp = (): void => {
        stop();
        reject(new Error(`a worker sent nothing for ${limitMs} ms`));
      };
      const timer = Number.isFinite(limitMs) ? setTimeout(giveUp, limitMs) : undefined;
      this.#notify = () => {
        if (this.#messages.length > 0) {
          stop();
          resolve(this.#messages.shift() as T);
        } else if (this.#hasEnded) {
          stop();
          reject(this.describeEnd());
        }
      };
      this.#notify();
    });
  }

  ask<T>(order: object): Promise<T> {
    const answer = this.next<T>();
    // The caller may await it later than the worker fails.
    answer.catch(() => undefined);
    this.send(order);
    return answer;
  }

  signal(signal: NodeJS.Signals): void {
    this.process.kill(signal);
  }

  /** Kills the worker, and resolves when it has ended. */
  async end(): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const ended = new Promise((resolve) => this.process.once("exit", resolve));
    this.signal("SIGKILL");
    await ended;
  }

  /**
   * Why the worker ended: the error that it printed, without local paths, or else its exit code.
   */
  describeEnd(): Error {
    const lines = this.#errors.split("\n").filter((line) => line.trim() !== "");
    // Node prints the place in the source before the error.
    const line = lines.find((each) => /^\w*Error\b/.test(each)) ?? lines[0];
    const code = this.process.exitCode ?? this.process.signalCode;
    return new Error(line?.trim().replaceAll(ROOT, "") ?? `a worker ended with ${code}`);
  }
}

/** A library and the server that it locks on. */
export interface Target {
  /** The name of a file in bench/peers/libraries. */
  readonly library: string;
  readonly url: string;
}

let resources = 0;

/** A resource name that no other measurement of this process uses. */
export function newResource(): string {
  resources += 1;
  return `bench-${process.pid}-${resources}`;
}

/** Starts workers that lock through one library, and ends them after the work. */
export async function withLockers<T>(
  { library, url }: Target,
  { count, ttlMs = 10_000 }: { readonly count: number; readonly ttlMs?: number },
  work: (workers: readonly [Worker, ...Worker[]]) => Promise<T>,
): Promise<T> {
  const start = (): Worker => new Worker("locker.mjs", { library, url, ttlMs });
  const workers: [Worker, ...Worker[]] = [start()];
  while (workers.length < count) workers.push(start());
  try {
    await Promise.all(workers.map((worker) => worker.next()));
    return await work(workers);
  } finally {
    await Promise.all(workers.map((worker) => worker.end()));
  }
}

export function startChild(program: string, settings: object): Child {
  const child = new Child(new URL(`./workers/${program}`, import.meta.url), settings, {});
  living.add(child);
  return child;
}

export async function endChild(child: Child): Promise<void> {
  await child.kill();
  living.delete(child);
}

/** Kills all of them, also those that are stopped. Calls that wait for one of them then fail. */
export function endWorkers(): void {
  for (const each of living) each.signal("SIGKILL");
}
