// A server that tests run against: ours, or one that the environment names. Ours listens on loopback, keeps its data
// in a temp folder, and is stopped, killed, frozen and started again by pid. What a test forgets to end, and
// what it cannot end because it crashed, the watchdog ends (launch.ts).
import type { ChildProcess } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { until } from "./ask.ts";
import { launch, removeFolder, type User } from "./launch.ts";
import { PortTakenError } from "./ports.ts";
import { cpuSecondsOf, isRunning, signalTree } from "./process-tree.mjs";

export interface RunningServer extends AsyncDisposable {
  /** The engine, and in a group the member: "redis", "etcd s1". */
  readonly name: string;
  readonly url: string;
  readonly host: string;
  readonly port: number;
  /** Temp folder of settings, data and log; empty for a given server. */
  readonly folder: string;
  /** Of the process that runs now, another one after every start; NaN while there is none. */
  readonly pid: number;
  /** How long the latest start took until the server answered. */
  readonly readyMs: number;
  /** The variable that named this server, when it is not ours: then it cannot be stopped, killed or paused. */
  readonly givenBy: string | undefined;
  /** Whether it answers a question of its own protocol in time. */
  answers(limitMs?: number): Promise<boolean>;
  /** Asks it to end, and insists after 5 s. The data stays. */
  stop(): Promise<void>;
  /** SIGKILL, to all of its processes; resolves when none is left. The data stays. */
  kill(): Promise<void>;
  /** SIGSTOP, to all of its processes: connections stay open, and nothing answers. */
  pause(): void;
  resume(): void;
  /** Starts it again, on the same port and data; resolves when it answers. */
  start(): Promise<void>;
  /** CPU time of all its processes since the latest start. */
  cpuSeconds(): number;
  /** What it has written to stdout and stderr, over all starts. */
  log(): string;
}

/** How to run one server. */
export interface Plan {
  readonly name: string;
  readonly url: string;
  readonly port: number;
  /** From makeFolder(); it is removed with the server. */
  readonly folder: string;
  readonly command: readonly string[];
  readonly user?: User | undefined;
  /** How it is asked to end. @default SIGTERM */
  readonly stopSignal?: NodeJS.Signals;
  readonly answers: (limitMs: number) => Promise<boolean>;
}

const READY_MAX_MS = 30_000;
const STOP_MAX_MS = 5_000;
const ANSWER_MAX_MS = 1_000;

export class OwnServer implements RunningServer {
  readonly host = "127.0.0.1";
  readonly givenBy = undefined;
  readyMs: number = Number.NaN;
  readonly #plan: Plan;
  #process: ChildProcess | undefined;
  #exited: Promise<void> = Promise.resolve();

  constructor(plan: Plan) {
    this.#plan = plan;
  }

  get name(): string {
    return this.#plan.name;
  }
  get url(): string {
    return this.#plan.url;
  }
  get port(): number {
    return this.#plan.port;
  }
  get folder(): string {
    return this.#plan.folder;
  }
  get pid(): number {
    return this.#process?.pid ?? Number.NaN;
  }

  answers(limitMs: number = ANSWER_MAX_MS): Promise<boolean> {
    return this.#plan.answers(limitMs);
  }

  async start(): Promise<void> {
    if (this.#process !== undefined) throw new Error(`${this.name} runs already.`);
    const { command, folder, user } = this.#plan;
    const logBefore = this.log().length;
    const begunAt = performance.now();
    const child = await launch(command, { folder, user, logFile: this.#logFile() });
    this.#process = child;
    this.#exited = new Promise((resolve) => {
      child.once("exit", () => {
        this.#process = undefined;
        resolve();
      });
    });
    // A slow machine may take longer than one limit to answer: a later question finds it ready.
    const answersOrIsGone = async (): Promise<boolean> =>
      this.#process !== child || (await this.answers());
    await until(`${this.name} answers`, answersOrIsGone, READY_MAX_MS).catch(async (error) => {
      await this.kill();
      throw new Error(`${error.message} Its log ends:\n${this.log().slice(-2_000)}`);
    });
    if (this.#process !== child) {
      const log = this.log().slice(logBefore);
      const message = `${this.name} ended while it started. Its log:\n${log.slice(-2_000)}`;
      throw /address already in use/i.test(log) ? new PortTakenError(message) : new Error(message);
    }
    this.readyMs = performance.now() - begunAt;
  }

  async stop(): Promise<void> {
    const child = this.#process;
    if (child?.pid === undefined) return;
    signalTree(child.pid, "SIGCONT");
    child.kill(this.#plan.stopSignal ?? "SIGTERM");
    const limit = new AbortController();
    const inTime = sleep(STOP_MAX_MS, undefined, { signal: limit.signal }).catch(() => undefined);
    await Promise.race([this.#exited, inTime]);
    limit.abort();
    await this.kill();
  }

  async kill(): Promise<void> {
    const pid = this.#process?.pid;
    if (pid === undefined) return;
    const killed = signalTree(pid, "SIGKILL");
    await this.#exited;
    // Its children are not ours to wait for; while one of them lives, the data may still be in use.
    const areGone = async (): Promise<boolean> => !killed.some(isRunning);
    await until(`all processes of ${this.name} are gone`, areGone, STOP_MAX_MS);
  }

  pause(): void {
    signalTree(this.#livingPid(), "SIGSTOP");
  }

  resume(): void {
    signalTree(this.#livingPid(), "SIGCONT");
  }

  cpuSeconds(): number {
    return cpuSecondsOf(this.#livingPid());
  }

  log(): string {
    return existsSync(this.#logFile()) ? readFileSync(this.#logFile(), "utf8") : "";
  }

  /** The end: no more data. It is not asked politely, since nobody will miss what it has not written. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    await removeFolder(this.folder);
  }

  #livingPid(): number {
    const pid = this.#process?.pid;
    if (pid === undefined) throw new Error(`${this.name} does not run.`);
    return pid;
  }

  #logFile(): string {
    return join(this.folder, "server.log");
  }
}

/** Runs the server until it answers; whatever goes wrong on the way leaves nothing behind. */
export async function startServer(plan: Plan): Promise<OwnServer> {
  const server = new OwnServer(plan);
  try {
    await server.start();
    return server;
  } catch (error) {
    await server[Symbol.asyncDispose]();
    throw error;
  }
}

/** Ends them all, the latest first, also when one of them cannot be ended. */
export async function disposeAll(servers: readonly AsyncDisposable[]): Promise<void> {
  const results: PromiseSettledResult<void>[] = [];
  for (const server of [...servers].reverse()) {
    results.push(...(await Promise.allSettled([server[Symbol.asyncDispose]()])));
  }
  const failed = results.find((result) => result.status === "rejected");
  if (failed !== undefined) throw failed.reason;
}
