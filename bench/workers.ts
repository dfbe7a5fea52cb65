// Worker processes of the benchmarks: started from bench/workers/, given one order at a time, which they answer.

import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";

const living = new Set<ChildProcess>();

export function startWorker(file: string, ...args: readonly string[]): ChildProcess {
  const program = fileURLToPath(new URL(`./workers/${file}`, import.meta.url));
  const worker = fork(program, args, { execArgv: [] });
  living.add(worker);
  worker.once("exit", () => living.delete(worker));
  return worker;
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
    const failed = (code: unknown): void => reject(new Error(`a worker ended with ${code}`));
    worker.once("exit", failed);
    worker.once("message", (message) => {
      worker.off("exit", failed);
      resolve(message as T);
    });
  });
}

export function answer<T>(worker: ChildProcess, order: object): Promise<T> {
  const answered = heard<T>(worker);
  worker.send(order);
  return answered;
}
