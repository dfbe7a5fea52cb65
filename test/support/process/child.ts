// Talks with a worker process: one line of JSON per event out of its stdout, one per command into
// its stdin. Knows no test runner, since bench/workers.ts uses it too.
import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

/**
 * One line of a worker. `at` is CLOCK_MONOTONIC in milliseconds, the same clock in every process of
 * this host.
 */
export interface Told {
  readonly event: string;
  readonly at: number;
  readonly [fact: string]: unknown;
}

export interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface StartOptions {
  /** Run as this user; only root can. */
  readonly uid?: number | undefined;
  /**
   * False: the worker has no stdin, so that nothing of ours keeps its event loop alive. @default
   * true
   */
  readonly commands?: boolean | undefined;
  /**
   * A command that ends by running the command line appended to it, such as `unshare -m`. @default
   * none
   */
  readonly through?: readonly string[] | undefined;
}

/** A worker that says nothing for so long hangs. */
const SILENCE_MAX_MS = 20_000;

export class Child {
  readonly exited: Promise<Exit>;
  readonly #process: ChildProcess;
  readonly #script: string;
  readonly #told: Told[] = [];
  readonly #listeners = new Set<() => void>();
  #unread = "";
  #errors = "";
  #exit: Exit | undefined;

  constructor(script: URL, settings: object, options: StartOptions) {
    this.#script = fileURLToPath(script);
    const line = [process.execPath, this.#script, JSON.stringify(settings)];
    const [command = "", ...rest] = [...(options.through ?? []), ...line];
    this.#process = spawn(command, rest, {
      stdio: [options.commands === false ? "ignore" : "pipe", "pipe", "pipe"],
      ...(options.uid === undefined ? {} : { uid: options.uid, gid: options.uid }),
    });
    this.#process.stdout?.on("data", (chunk: Buffer) => this.#read(String(chunk)));
    this.#process.stderr?.on("data", (chunk: Buffer) => {
      this.#errors += chunk;
    });
    // A worker that was killed leaves its stdin broken; the exit says enough.
    this.#process.stdin?.on("error", () => undefined);
    this.exited = new Promise((resolve, reject) => {
      this.#process.once("error", reject);
      // "close", not "exit": only then everything it said has been read.
      this.#process.once("close", (code, signal) => {
        this.#exit = { code, signal };
        this.#notify();
        resolve({ code, signal });
      });
    });
    this.exited.catch(() => undefined);
  }

  get pid(): number {
    return this.#process.pid ?? Number.NaN;
  }

  /** Everything it wrote to stderr until now. */
  get errors(): string {
    return this.#errors;
  }

  get hasExited(): boolean {
    return this.#exit !== undefined;
  }

  /** Every line so far, in order. */
  get told(): readonly Told[] {
    return this.#told;
  }

  say(command: object): void {
    this.#process.stdin?.write(`${JSON.stringify(command)}\n`);
  }

  /** Goes to this very process, never to another one that got its number later. */
  signal(signal: NodeJS.Signals): void {
    this.#process.kill(signal);
  }

  /**
   * The first line, said already or still to come, that fits; fails when the worker ends or falls
   * silent before.
   */
  heard(event: string, fits: (told: Told) => boolean = () => true): Promise<Told> {
    return new Promise((resolve, reject) => {
      const look = (): void => {
        const found = this.#told.find((told) => told.event === event && fits(told));
        if (found === undefined && this.#exit === undefined) return;
        this.#listeners.delete(look);
        clearTimeout(timer);
        if (found !== undefined) resolve(found);
        else reject(new Error(`${this.#script} ended before it said "${event}".${this.#story()}`));
      };
      const giveUp = (): void => {
        this.#listeners.delete(look);
        reject(new Error(`${this.#script} did not say "${event}" in time.${this.#story()}`));
      };
      const timer = setTimeout(giveUp, SILENCE_MAX_MS);
      this.#listeners.add(look);
      look();
    });
  }

  async kill(): Promise<void> {
    if (!this.hasExited) this.signal("SIGKILL");
    await this.exited;
  }

  #read(chunk: string): void {
    const lines = (this.#unread + chunk).split("\n");
    this.#unread = lines.pop() ?? "";
    for (const line of lines) this.#told.push(JSON.parse(line) as Told);
    if (lines.length > 0) this.#notify();
  }

  #notify(): void {
    for (const look of [...this.#listeners]) look();
  }

  #story(): string {
    const last = this.#told.slice(-3).map((told) => JSON.stringify(told));
    return ` Exit: ${JSON.stringify(this.#exit)}. Last words: ${last.join(" ")}\n${this.#errors}`;
  }
}
