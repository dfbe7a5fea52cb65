// The real clock, host clock, randomness and name of this process. Created once per process.

import { hostname } from "node:os";
import { performance } from "node:perf_hooks";
import type { Clock, HostClock, Random } from "../async/clock.ts";
import { SystemClock } from "./system-clock.ts";
import { systemHostClock } from "./system-host-clock.ts";
import { systemRandom } from "./system-random.ts";

export interface SystemParts {
  readonly clock: Clock;
  readonly hostClock: HostClock;
  readonly random: Random;
  warn(message: string): void;
  onExit(callback: () => void): () => void;
}

let parts: SystemParts | undefined;

export function systemParts(): SystemParts {
  if (parts === undefined) {
    const hostClock = systemHostClock();
    const clock = new SystemClock({
      monotonicMs: () => performance.now(),
      wallMs: () => Date.now(),
      hostClock,
    });
    parts = { clock, hostClock, random: systemRandom, warn: warnOnce, onExit };
  }
  return parts;
}

/** A name for people to read. It need not be unique, because sessions have their own ids. */
export function defaultHolderId(): string {
  return `${hostname()}/${process.pid}`;
}

/**
 * Reports a failure that no caller waits for as a process warning, which Node prints by default.
 */
export function warn(message: string, error?: unknown): void {
  const type = "TenureWarning";
  if (error === undefined) process.emitWarning(message, { type });
  else {
    const detail = error instanceof Error ? (error.stack ?? error.message) : String(error);
    process.emitWarning(message, { type, detail });
  }
}

const warned = new Set<string>();

/** A process that opens the same store many times warns about its server once. */
function warnOnce(message: string): void {
  if (warned.has(message)) return;
  warned.add(message);
  warn(message);
}

const onExitCallbacks = new Set<() => void>();

/** One listener for all callbacks: Node warns about a leak when there are many. */
function onExit(callback: () => void): () => void {
  if (onExitCallbacks.size === 0) process.on("exit", runExitCallbacks);
  onExitCallbacks.add(callback);
  return () => {
    onExitCallbacks.delete(callback);
    if (onExitCallbacks.size === 0) process.off("exit", runExitCallbacks);
  };
}

function runExitCallbacks(): void {
  for (const callback of onExitCallbacks) callback();
}
