// Worker processes of the benchmarks: started from bench/workers/, given one order at a time, which they answer.

import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";

export function startWorker(file: string, ...args: readonly string[]): ChildProcess {
  return fork(fileURLToPath(new URL(`./workers/${file}`, import.meta.url)), args, { execArgv: [] });
}

export function answer<T>(worker: ChildProcess, order: object): Promise<T> {
  return new Promise((resolve, reject) => {
    const failed = (code: unknown): void => reject(new Error(`a worker ended with ${code}`));
    worker.once("exit", failed);
    worker.once("error", reject);
    worker.once("message", (message) => {
      worker.off("exit", failed);
      worker.off("error", reject);
      resolve(message as T);
    });
    worker.send(order);
  });
}
