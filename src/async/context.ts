// Tracks the lease under which the current code runs. `lease.run()` sets it, and all code awaited
// inside finds it, so that guards need no extra parameter. The holder sets the lease and the guards
// read it; this file exists because these two may not import each other.

import { AsyncLocalStorage } from "node:async_hooks";

/** The part of a lease that a guard needs. */
export interface Held {
  readonly resource: string;
  readonly token: bigint;
  check(): bigint;
}

/** One call of `run()`. Calls can be nested. */
interface Frame {
  readonly held: Held;
  readonly outer: Frame | undefined;
  running: boolean;
}

const storage = new AsyncLocalStorage<Frame>();

export async function runUnder<T>(held: Held, work: () => T | Promise<T>): Promise<T> {
  const frame: Frame = { held, outer: storage.getStore(), running: true };
  try {
    return await storage.run(frame, work);
  } finally {
    frame.running = false;
  }
}

/** The lease of the innermost `run()` around this code, or of the innermost one for `resource`. */
export function currentHeld(resource?: string): Held | undefined {
  for (let frame = storage.getStore(); frame !== undefined; frame = frame.outer) {
    if (resource === undefined || frame.held.resource === resource) return frame.held;
  }
  return undefined;
}

/** The innermost lease that satisfies `test` and has work in flight which this code is part of. */
export function findRunning<H extends Held>(test: (held: Held) => held is H): H | undefined {
  for (let frame = storage.getStore(); frame !== undefined; frame = frame.outer) {
    const { held, running } = frame;
    if (running && test(held)) return held;
  }
  return undefined;
}

/**
 * Whether this code is part of work in flight under `held`. If so, waiting for that work would
 * deadlock.
 */
export function isInsideWork(held: Held): boolean {
  return findRunning((other): other is Held => other === held) !== undefined;
}
