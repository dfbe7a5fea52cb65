// A server that tests run against: one that this process starts, or one that the environment names.
// A server that we start listens on loopback, keeps its data in a temp folder, and can be stopped,
// killed, paused and restarted. If a test crashes or forgets to end its server, the watchdog does
// it (launch.ts).
import type { ChildProcess } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { until } from "./ask.ts";
import { launch, removeFolder, type User } from "./launch.ts";
import { PortTakenError } from "./ports.ts";
import { continueTree, killTree, readCpuSeconds, stopTree } from "./process-tree.mjs";

export interface RunningServer extends AsyncDisposable {
  /** The engine and, in a group, the member, such as "redis" or "etcd s1". */
  readonly name: string;
  readonly url: string;
  readonly host: string;
  readonly port: number;
  /** Temp folder with settings, data and log. Empty if this process did not start the server. */
  readonly folder: string;
  /**
   * The pid of the current process, which changes with every start. NaN while the server is not
   * running.
   */
  readonly pid: number;
  /** The time from the latest start until the server answered. */
  readonly readyMs: number;
  /**
   * The environment variable that named this server. If set, the server cannot be stopped, killed
   * or paused.
   */
  readonly givenBy: string | undefined;
  /** Whether it answers a request of its own protocol within `limitMs`. */
  answers(limitMs?: number): Promise<boolean>;
  /** Stops the server with its stop signal, or with SIGKILL after 5 s. The data is kept. */
  stop(): Promise<void>;
  /** Sends SIGKILL to all its processes. Resolves when none is left. The data is kept. */
  kill(): Promise<void>;
  /**
   * Sends SIGSTOP to all its processes. Connections stay open; after it resolves, nothing is
   * answered.
   */
  pause(): Promise<void>;
  resume(): Promise<void>;
  /** Restarts the server with the same port and data. Resolves when it answers. */
  start(): Promise<void>;
  /** CPU time of all its processes since the latest start. */
  cpuSeconds(): number;
  /** Everything that it has written to stdout and stderr, over all starts. */
  log(): string;
}

/** How to run one server. */
export interface Plan {
  readonly name: string;
  readonly url: string;
  readonly port: number;
  /** From makeFolder(). Removed together with the server. */
  readonly folder: string;
  readonly command: readonly string[];
  readonly user?: User | undefined;
  /**
   * The signal that stops the server cleanly.
   * @default SIGTERM
   */
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
    if (this.#process !== undefined) throw new Error(`${this.name} is already running.`);
    const { command, folder, user } = this.#plan;
    const logBefore = this.log().length;
    const begunAt = performance.now();
    const child = await launch(command, { folder, user, logFile: this.#logFile() });
    this.#process = child;
    // The server does not keep this process alive. If the process exits first, the watchdog kills
    // the server.
    child.unref();
    this.#exited = new Promise((resolve) => {
      child.once("exit", () => {
        this.#process = undefined;
        resolve();
      });
    });
    // Repeated, because a slow machine may need longer than one limit to answer.
    const answersOrIsGone = async (): Promise<boolean> =>
      this.#process !== child || (await this.answers());
    await until(`${this.name} answers`, answersOrIsGone, READY_MAX_MS).catch(async (error) => {
      await this.kill();
      throw new Error(`${error.message} Its log ends:\n${this.log().slice(-2_000)}`);
    });
    if (this.#process !== child) {
      const log = this.log().slice(logBefore);
      const message = `${this.name} exited before it answered. Its log:\n${log.slice(-2_000)}`;
      throw /address already in use/i.test(log) ? new PortTakenError(message) : new Error(message);
    }
    this.readyMs = performance.now() - begunAt;
  }

  async stop(): Promise<void> {
    const child = this.#process;
    if (child?.pid === undefined) return;
    child.ref();
    continueTree(child.pid);
    child.kill(this.#plan.stopSignal ?? "SIGTERM");
    const limit = new AbortController();
    const inTime = sleep(STOP_MAX_MS, undefined, { signal: limit.signal }).catch(() => undefined);
    await Promise.race([this.#exited, inTime]);
    limit.abort();
    await this.kill();
  }

  async kill(): Promise<void> {
    const child = this.#process;
    if (child?.pid === undefined) return;
    child.ref();
    // All processes: while a child is running, the data may still be in use.
    await killTree(child.pid);
    await this.#exited;
  }

  async pause(): Promise<void> {
    await stopTree(this.#requirePid());
  }

  async resume(): Promise<void> {
    continueTree(this.#requirePid());
  }

  cpuSeconds(): number {
    return readCpuSeconds(this.#requirePid());
  }

  log(): string {
    return existsSync(this.#logFile()) ? readFileSync(this.#logFile(), "utf8") : "";
  }

  /**
   * Kills the server and removes its data. A clean stop is not needed, because the data is not used
   * again.
   */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
    await removeFolder(this.folder);
  }

  #requirePid(): number {
    const pid = this.#process?.pid;
    if (pid === undefined) throw new Error(`${this.name} is not running.`);
    return pid;
  }

  #logFile(): string {
    return join(this.folder, "server.log");
  }
}

/** Starts a server and waits until it answers. On failure, no process and no folder remains. */
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

/** Disposes all of them, the latest first, even if one fails. Then throws the first error. */
export async function disposeAll(servers: readonly AsyncDisposable[]): Promise<void> {
  const results: PromiseSettledResult<void>[] = [];
  for (const server of [...servers].reverse()) {
    results.push(...(await Promise.allSettled([server[Symbol.asyncDispose]()])));
  }
  const failed = results.find((result) => result.status === "rejected");
  if (failed !== undefined) throw failed.reason;
}
