// Waits for the lease on a key that another run holds. While the acquisition is queued, the markers
// are polled: the other holder may be running this very occurrence, and then waiting is pointless.

import type { Clock } from "../async/clock.ts";
import { linkSignals, orAborted } from "../async/signals.ts";
import { pause } from "../async/waits.ts";
import { AcquireTimeoutError } from "../core/errors.ts";
import type { HeldLease } from "../holder/held-lease.ts";
import type { AcquireOptions } from "../holder/options.ts";
import type { Taken } from "./markers.ts";

export interface WaitForKeyParts {
  readonly clock: Clock;
  acquire(options: AcquireOptions): Promise<HeldLease>;
  /** Reads the markers: which holder, if any, has begun this occurrence. */
  findTaken(): Promise<Taken | undefined>;
}

/** A new holder of the key writes its marker within a few round trips. */
const FIRST_POLL_MS = 50;

/** Resolves to the lease, to the holder that has begun the occurrence, or to a timeout. */
export async function waitForKey(
  { clock, acquire, findTaken }: WaitForKeyParts,
  options: AcquireOptions,
): Promise<HeldLease | Taken | AcquireTimeoutError> {
  const [acquired, polled] = [new AbortController(), new AbortController()];
  const { signal, unlink } = linkSignals(options.signal, polled.signal);
  const acquiring = acquire({ ...options, signal }).finally(() => acquired.abort());
  const polling = pollTaken(clock, findTaken, acquired.signal).finally(() => polled.abort());
  const [lease, taken] = await Promise.allSettled([acquiring, polling]);
  unlink();
  // Even if the occurrence was taken at the same time: the caller reads the markers again under
  // the lease.
  if (lease.status === "fulfilled") return lease.value;
  if (taken.status === "rejected") throw taken.reason;
  if (taken.value !== undefined) return taken.value;
  expectTimeout(lease.reason);
  // One last attempt, in case the wake-up was lost.
  return (await findTaken()) ?? (await acquire({ ...options, waitMs: 0 }).catch(expectTimeout));
}

/** Undefined if `signal` aborts first. */
async function pollTaken(
  clock: Clock,
  findTaken: WaitForKeyParts["findTaken"],
  signal: AbortSignal,
): Promise<Taken | undefined> {
  try {
    for (let nextMs = FIRST_POLL_MS; ; nextMs *= 2) {
      await pause(clock, nextMs, signal);
      const taken = await orAborted(findTaken(), signal);
      if (taken !== undefined) return taken;
    }
  } catch (error) {
    if (signal.aborted) return undefined;
    throw error;
  }
}

/** Returns a timeout as a value; rethrows any other error. */
export function expectTimeout(error: unknown): AcquireTimeoutError {
  if (error instanceof AcquireTimeoutError) return error;
  throw error;
}
