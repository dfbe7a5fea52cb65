// Starts processes that never outlive this one. Each process starts as a shell that waits for a
// line on stdin, and gets that line only after the watchdog has registered it. The watchdog
// therefore knows every running process, even if this one is killed with SIGKILL. Folders are
// registered in the same way, before they are created.
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { chownSync, closeSync, mkdirSync, openSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** The user that a server runs as. */
export interface User {
  readonly uid: number;
  readonly gid: number;
}

export interface LaunchOptions {
  /** Working directory; must come from makeFolder(). */
  readonly folder: string;
  readonly user?: User | undefined;
  readonly env?: Readonly<Record<string, string>> | undefined;
  /** The file that receives stdout and stderr. Without it they are pipes. */
  readonly logFile?: string | undefined;
}

const WATCHDOG = fileURLToPath(new URL("./watchdog.mjs", import.meta.url));
let watchdog: ChildProcess | undefined;
let requests = 0;

/** Creates a folder that is removed when this process ends, if not earlier. Its owner is `user`. */
export async function makeFolder(name: string, user?: User): Promise<string> {
  const folder = join(tmpdir(), `tenure-${name}-${randomBytes(6).toString("hex")}`);
  await sendToWatchdog({ folder });
  mkdirSync(folder, { mode: 0o700 });
  if (user !== undefined) chownSync(folder, user.uid, user.gid);
  return folder;
}

export async function removeFolder(folder: string): Promise<void> {
  rmSync(folder, { recursive: true, force: true });
  await sendToWatchdog({ folder, forget: true });
}

/**
 * Resolves when the program has been started. The shell replaces itself by the program, so the pid
 * of the child is that of the program.
 */
export async function launch(
  command: readonly string[],
  options: LaunchOptions,
): Promise<ChildProcess> {
  const output = options.logFile === undefined ? "pipe" : openSync(options.logFile, "a");
  const child = spawn("/bin/sh", ["-c", 'read -r go && exec "$@" </dev/null', "sh", ...command], {
    cwd: options.folder,
    stdio: ["pipe", output, output],
    // Variables of our own environment (PGPORT, ETCD_NAME, JAVA_TOOL_OPTIONS) must not affect the
    // server.
    env: { PATH: process.env.PATH, LC_ALL: "C", HOME: options.folder, ...options.env },
    ...(options.user ?? {}),
  });
  if (typeof output === "number") closeSync(output);
  // The process may have died before it reads the line; its exit reports that.
  child.stdin?.on("error", () => undefined);
  await once(child, "spawn");
  await sendToWatchdog({ folder: options.folder, pid: child.pid });
  child.stdin?.end("go\n");
  return child;
}

/**
 * Runs a program until it exits, and returns its output. Throws an error with its stderr if the
 * exit code is not 0.
 */
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

async function sendToWatchdog(message: object): Promise<void> {
  const receiver = getWatchdog();
  requests += 1;
  const id = requests;
  await new Promise<void>((resolve, reject) => {
    const settle = (error?: Error): void => {
      receiver.off("message", onMessage);
      receiver.off("exit", onExit);
      // The channel keeps this process alive only while a reply is pending.
      if (receiver.listenerCount("message") === 0) receiver.channel?.unref();
      if (error === undefined) resolve();
      else reject(error);
    };
    const onMessage = (answer: unknown): void => {
      if ((answer as { id: number }).id === id) settle();
    };
    const onExit = (): void => settle(new Error("The watchdog of the test servers has ended."));
    receiver.on("message", onMessage);
    receiver.on("exit", onExit);
    receiver.channel?.ref();
    receiver.send({ id, ...message }, (error) => {
      if (error !== null) settle(error);
    });
  });
}

function getWatchdog(): ChildProcess {
  if (watchdog?.connected) return watchdog;
  // Detached: the watchdog has its own process group, so a signal to our group does not reach it.
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
