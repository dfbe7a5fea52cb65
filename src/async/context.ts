// Which lease the running code works under. `lease.run()` sets it, and everything awaited inside finds it, so that
// deep code and guards need no extra parameter. It lies in core because holder and guards both use it and may not know
// each other: the one puts a lease in, the other takes a token out.

import { AsyncLocalStorage } from "node:async_hooks";

/** What travels: a lease, as far as a guard has to know it. */
export interface Held {
  readonly resource: string;
  readonly token: bigint;
  check(): bigint;
}

/** One call of `run()`, inside others perhaps. */
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

/** The innermost one around this code; with a resource, the innermost of that resource. Undefined outside of any. */
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

/** Whether this code is part of work in flight under `held`: waiting for that work would never end. */
export function isInsideWorkOf(held: Held): boolean {
  return findRunning((other): other is Held => other === held) !== undefined;
}
