// Which lease the running code works under. `lease.run()` sets it, and everything awaited inside finds it, so that
// deep code and guards need no extra parameter.

import { AsyncLocalStorage } from "node:async_hooks";
import type { Lease } from "./lease.ts";

/** One call of `run()`, inside others perhaps. */
interface Frame {
  readonly lease: Lease;
  readonly outer: Frame | undefined;
  running: boolean;
}

const storage = new AsyncLocalStorage<Frame>();

export async function runUnder<T>(lease: Lease, work: () => T | Promise<T>): Promise<T> {
  const frame: Frame = { lease, outer: storage.getStore(), running: true };
  try {
    return await storage.run(frame, work);
  } finally {
    frame.running = false;
  }
}

/** The lease of the innermost `lease.run()` around this code, or undefined outside of any. */
export function currentLease(): Lease | undefined {
  return storage.getStore()?.lease;
}

/** Whether this code is part of work that is in flight under the lease: waiting for that work would wait for itself. */
export function isInsideWorkOf(lease: Lease): boolean {
  for (let frame = storage.getStore(); frame !== undefined; frame = frame.outer) {
    if (frame.lease === lease && frame.running) return true;
  }
  return false;
}
