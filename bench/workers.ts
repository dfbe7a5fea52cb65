// Worker processes of the benchmarks: started from bench/workers/, given one order at a time, which they answer.

import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";

const ROOT = fileURLToPath(new URL("../", import.meta.url));
const SAID_MAX = 10_000;
const living = new Set<ChildProcess>();
const complaints = new WeakMap<ChildProcess, string>();

export function startWorker(file: string, ...args: readonly string[]): ChildProcess {
  const program = fileURLToPath(new URL(`./workers/${file}`, import.meta.url));
  const worker = fork(program, args, {
    execArgv: [],
    stdio: ["inherit", "inherit", "pipe", "ipc"],
  });
  living.add(worker);
  worker.once("exit", () => living.delete(worker));
  worker.stderr?.on("data", (part: Buffer) => {
    process.stderr.write(part);
    // The beginning is what names the error.
    const said = complaints.get(worker) ?? "";
    if (said.length < SAID_MAX) complaints.set(worker, said + part.toString());
  });
  return worker;
}

/** Why it ended by itself, in a line for a row: what it said of its error, or its exit code. */
export function endOf(worker: ChildProcess): Error {
  const code = worker.exitCode ?? worker.signalCode;
  const lines = (complaints.get(worker) ?? "").split("\n").filter((line) => line.trim() !== "");
  // Node shows the place in the source first, then the error.
  const line = lines.find((each) => /^\w*Error\b/.test(each)) ?? lines[0];
  if (line === undefined) return new Error(`a worker ended with ${code}`);
  // A row is published, and the machine's folders are nobody's business.
  return new Error(line.trim().replaceAll(ROOT, ""));
}

/** Kills it, and resolves when it is gone. */
export async function endWorker(worker: ChildProcess): Promise<void> {
  if (worker.exitCode !== null || worker.signalCode !== null) return;
  const ended = new Promise((resolve) => worker.once("exit", resolve));
  worker.kill("SIGKILL");
  await ended;
}

/** For a measurement that hangs: whoever waits for one of them is told that it ended. */
export function endWorkers(): void {
  for (const worker of living) worker.kill("SIGKILL");
}

/** What it says next. */
export function heard<T>(worker: ChildProcess): Promise<T> {
  return new Promise((resolve, reject) => {
    // Not "exit": what it said last may still be on its way then.
    const failed = (): void => reject(endOf(worker));
    worker.once("close", failed);
    worker.once("message", (message) => {
      worker.off("close", failed);
      resolve(message as T);
    });
  });
}

export function answer<T>(worker: ChildProcess, order: object): Promise<T> {
  const answered = heard<T>(worker);
  worker.send(order);
  return answered;
}
