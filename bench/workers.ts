// Worker processes of the benchmarks and safety trials. A Worker answers one order at a time: over
// IPC if it is a Node program, over stdin and stdout if it is written in another language. A Child
// (test/support/process) writes its events synchronously, which a trial that stops its worker
// needs. All of them are killed when this process ends.

import { type ChildProcess, fork, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { Child } from "../test/support/process/child.ts";

const ROOT = fileURLToPath(new URL("../", import.meta.url));
const ERRORS_MAX = 10_000;
const living = new Set<{ signal(signal: NodeJS.Signals): void }>();
process.once("exit", endWorkers);

interface WorkerOptions {
  /** Arguments for node. */
  readonly execArgv?: readonly string[] | undefined;
  /**
   * Runs this command in place of the Node program. Its last argument is the settings. Each line of
   * its stdin is an order and each line of its stdout a message, as JSON.
   */
  readonly command?: readonly string[] | undefined;
}

export class Worker {
  readonly process: ChildProcess;
  readonly #messages: unknown[] = [];
  #errors = "";
  #hasEnded = false;
  #notify: () => void = () => undefined;

  /** `program`: the name of a file in bench/workers, or a URL. */
  constructor(program: string | URL, settings: object, options: WorkerOptions = {}) {
    const receive = (message: unknown): void => {
      this.#messages.push(message);
      this.#notify();
    };
    this.process = start(program, JSON.stringify(settings), options);
    living.add(this);
    this.process.on("message", receive);
    // Only a program in another language has a stdout of its own.
    if (this.process.stdout !== null)
      createInterface({ input: this.process.stdout }).on("line", (line) =>
        receive(JSON.parse(line)),
      );
    // Writing to a killed worker fails; its end reports that.
    this.process.stdin?.on("error", () => undefined);
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
    if (this.process.stdin === null) this.process.send(order);
    else this.process.stdin.write(`${JSON.stringify(order)}\n`);
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

function start(
  program: string | URL,
  settings: string,
  { execArgv = [], command }: WorkerOptions,
): ChildProcess {
  if (command !== undefined) {
    const [file = "", ...args] = command;
    return spawn(file, [...args, settings], { stdio: "pipe" });
  }
  const url = program instanceof URL ? program : new URL(`./workers/${program}`, import.meta.url);
  return fork(fileURLToPath(url), [settings], {
    execArgv: [...execArgv],
    stdio: ["inherit", "inherit", "pipe", "ipc"],
  });
}

/** A library and the server that it locks on. */
export interface Target {
  /** The name of a file in bench/peers/libraries, or a name that the command knows. */
  readonly library: string;
  readonly url: string;
  /** The worker of a library in another language. @default the Node program of the topic */
  readonly command?: readonly string[] | undefined;
}

let resources = 0;

/** A resource name that no other measurement of this process uses. */
export function newResource(): string {
  resources += 1;
  return `bench-${process.pid}-${resources}`;
}

interface LockerPlan {
  readonly count: number;
  readonly ttlMs?: number;
}

/** Workers that lock through one library. */
export class Lockers {
  readonly workers: readonly [Worker, ...Worker[]];

  private constructor({ library, url, command }: Target, { count, ttlMs = 10_000 }: LockerPlan) {
    const open = (): Worker => new Worker("locker.mjs", { library, url, ttlMs }, { command });
    const workers: [Worker, ...Worker[]] = [open()];
    while (workers.length < count) workers.push(open());
    this.workers = workers;
  }

  /** Resolves when all of them are connected. */
  static async start(target: Target, plan: LockerPlan): Promise<Lockers> {
    const lockers = new Lockers(target, plan);
    try {
      await Promise.all(lockers.workers.map((worker) => worker.next()));
      return lockers;
    } catch (error) {
      await lockers.end();
      throw error;
    }
  }

  async end(): Promise<void> {
    await Promise.all(this.workers.map((worker) => worker.end()));
  }
}

/** Starts workers that lock through one library, and ends them after the work. */
export async function withLockers<T>(
  target: Target,
  plan: LockerPlan,
  work: (workers: readonly [Worker, ...Worker[]]) => Promise<T>,
): Promise<T> {
  const lockers = await Lockers.start(target, plan);
  try {
    return await work(lockers.workers);
  } finally {
    await lockers.end();
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
