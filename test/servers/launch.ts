// Starts processes that never outlive this one. Each is registered with the watchdog before it does anything:
// it begins as a shell that waits for our word, so that at no moment, not even under SIGKILL, a process runs
// that the watchdog does not know. Folders are registered in the same way.
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { chownSync, closeSync, mkdirSync, openSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** Whom a server runs as; undefined: as ourselves. */
export interface User {
  readonly uid: number;
  readonly gid: number;
}

export interface LaunchOptions {
  /** Working directory; must come from makeFolder(). */
  readonly folder: string;
  readonly user?: User | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** Where stdout and stderr go; without it they are pipes. */
  readonly logFile?: string | undefined;
}

const WATCHDOG = fileURLToPath(new URL("./watchdog.mjs", import.meta.url));
let watchdog: ChildProcess | undefined;
let requests = 0;

/** A fresh folder that is removed at the latest when this process ends. */
export async function makeFolder(name: string, user?: User): Promise<string> {
  const folder = join(tmpdir(), `tenure-${name}-${randomBytes(6).toString("hex")}`);
  await tellWatchdog({ folder });
  mkdirSync(folder, { mode: 0o700 });
  if (user !== undefined) chownSync(folder, user.uid, user.gid);
  return folder;
}

export async function removeFolder(folder: string): Promise<void> {
  rmSync(folder, { recursive: true, force: true });
  await tellWatchdog({ folder, forget: true });
}

/** Resolves when the program has been let go; its pid is that of the child, since the shell becomes the program. */
export async function launch(
  command: readonly string[],
  options: LaunchOptions,
): Promise<ChildProcess> {
  const output = options.logFile === undefined ? "pipe" : openSync(options.logFile, "a");
  const child = spawn("/bin/sh", ["-c", 'read -r go && exec "$@" </dev/null', "sh", ...command], {
    cwd: options.folder,
    stdio: ["pipe", output, output],
    // Settings in our own environment (PGPORT, ETCD_NAME, JAVA_TOOL_OPTIONS) are not meant for these servers.
    env: { PATH: process.env.PATH, LC_ALL: "C", HOME: options.folder, ...options.env },
    ...(options.user ?? {}),
  });
  if (typeof output === "number") closeSync(output);
  // It may be dead before it hears our word; its exit says so.
  child.stdin?.on("error", () => undefined);
  await once(child, "spawn");
  await tellWatchdog({ folder: options.folder, pid: child.pid });
  child.stdin?.end("go\n");
  return child;
}

/** Runs a program to its end and gives back what it printed; a bad end is an error that quotes it. */
export async function runTool(command: readonly string[], options: LaunchOptions): Promise<string> {
  const child = await launch(command, options);
  let output = "";
  let errors = "";
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    errors += text;
  });
  const [code, signal] = (await once(child, "close")) as [number | null, NodeJS.Signals | null];
  if (code !== 0) {
    throw new Error(`${command.join(" ")} ended with ${signal ?? `code ${code}`}:\n${errors}`);
  }
  return output;
}

async function tellWatchdog(message: object): Promise<void> {
  const dog = livingWatchdog();
  requests += 1;
  const id = requests;
  await new Promise<void>((resolve, reject) => {
    const settle = (error?: Error): void => {
      dog.off("message", onMessage);
      dog.off("exit", onExit);
      // Only while an answer is due may the watchdog keep this process alive.
      if (dog.listenerCount("message") === 0) dog.channel?.unref();
      if (error === undefined) resolve();
      else reject(error);
    };
    const onMessage = (answer: unknown): void => {
      if ((answer as { id: number }).id === id) settle();
    };
    const onExit = (): void => settle(new Error("The watchdog of the test servers has ended."));
    dog.on("message", onMessage);
    dog.on("exit", onExit);
    dog.channel?.ref();
    dog.send({ id, ...message }, (error) => {
      if (error !== null) settle(error);
    });
  });
}

function livingWatchdog(): ChildProcess {
  if (watchdog?.connected) return watchdog;
  // Detached: in a process group of its own, which a signal to ours does not reach.
  watchdog = spawn(process.execPath, [WATCHDOG], {
    cwd: "/",
    stdio: ["ignore", "ignore", "ignore", "ipc"],
    env: { PATH: process.env.PATH },
    detached: true,
  });
  watchdog.on("error", () => undefined);
  watchdog.setMaxListeners(0);
  watchdog.unref();
  return watchdog;
}
