// Communicates with a worker process: the worker writes one line of JSON per event to its stdout
// and reads one per command from its stdin. It uses no test runner, because bench/workers.ts needs
// it too.
import { type ChildProcess, spawn } from "node:child_process";
import { fileURLToPath } from "node:url";

/**
 * One event of a worker. `at` is CLOCK_MONOTONIC in milliseconds, which all processes of a host
 * share.
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
  /** Run the worker as this user. Requires root. */
  readonly uid?: number | undefined;
  /**
   * If false, the worker has no stdin that could keep its event loop alive.
   * @default true
   */
  readonly commands?: boolean | undefined;
  /**
   * A command that ends by running the command line appended to it, such as `unshare -m`.
   * @default none
   */
  readonly through?: readonly string[] | undefined;
}

/** A worker that reports nothing for this long counts as hanging. */
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
    // Writing to a killed worker fails; its exit reports that.
    this.#process.stdin?.on("error", () => undefined);
    this.exited = new Promise((resolve, reject) => {
      this.#process.once("error", reject);
      // "close" rather than "exit": all output has been read only then.
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

  /** Everything that it has written to stderr so far. */
  get errors(): string {
    return this.#errors;
  }

  get hasExited(): boolean {
    return this.#exit !== undefined;
  }

  /** All events so far, in order. */
  get told(): readonly Told[] {
    return this.#told;
  }

  say(command: object): void {
    this.#process.stdin?.write(`${JSON.stringify(command)}\n`);
  }

  /** Sends a signal to this process, never to a later one with the same pid. */
  signal(signal: NodeJS.Signals): void {
    this.#process.kill(signal);
  }

  /**
   * Resolves to the first event, past or future, that matches. Rejects if the worker exits before,
   * or does not report it in time.
   */
  heard(event: string, fits: (told: Told) => boolean = () => true): Promise<Told> {
    return new Promise((resolve, reject) => {
      const check = (): void => {
        const found = this.#told.find((told) => told.event === event && fits(told));
        if (found === undefined && this.#exit === undefined) return;
        this.#listeners.delete(check);
        clearTimeout(timer);
        if (found !== undefined) resolve(found);
        else
          reject(
            new Error(`${this.#script} exited before it reported "${event}".${this.#describe()}`),
          );
      };
      const giveUp = (): void => {
        this.#listeners.delete(check);
        reject(new Error(`${this.#script} did not report "${event}" in time.${this.#describe()}`));
      };
      const timer = setTimeout(giveUp, SILENCE_MAX_MS);
      this.#listeners.add(check);
      check();
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
    for (const check of [...this.#listeners]) check();
  }

  #describe(): string {
    const last = this.#told.slice(-3).map((told) => JSON.stringify(told));
    return ` Exit: ${JSON.stringify(this.#exit)}. Last events: ${last.join(" ")}\n${this.#errors}`;
  }
}
