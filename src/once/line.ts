// Waiting for the key while somebody else has it. Whoever waits keeps its place in line, and looks at the marks meanwhile: the one
// who has the key may be running this very fire, and then there is nothing to wait for.

import type { Clock } from "../async/clock.ts";
import { linkSignals, orAborted } from "../async/signals.ts";
import { pause } from "../async/waits.ts";
import { AcquireTimeoutError } from "../core/errors.ts";
import type { Lease } from "../holder/lease.ts";
import type { AcquireOptions } from "../holder/leases.ts";
import type { Taken } from "./marks.ts";

export interface LineParts {
  readonly clock: Clock;
  acquire(options: AcquireOptions): Promise<Lease>;
  /** Who has had the fire. */
  look(): Promise<Taken | undefined>;
}

/** Whoever holds the key has marked its fire a few round trips later. */
const FIRST_LOOK_MS = 50;

/** The lease, who has had the fire, or that the time to wait is over. */
export async function waitInLine(
  { clock, acquire, look }: LineParts,
  options: AcquireOptions,
): Promise<Lease | Taken | AcquireTimeoutError> {
  const [answered, looked] = [new AbortController(), new AbortController()];
  const { signal, unlink } = linkSignals(options.signal, looked.signal);
  const acquiring = acquire({ ...options, signal }).finally(() => answered.abort());
  const looking = untilTaken(clock, look, answered.signal).finally(() => looked.abort());
  const [lease, taken] = await Promise.allSettled([acquiring, looking]);
  unlink();
  // Also where the fire is taken at the same moment: whoever holds the key looks again before it begins.
  if (lease.status === "fulfilled") return lease.value;
  if (taken.status === "rejected") throw taken.reason;
  if (taken.value !== undefined) return taken.value;
  busy(lease.reason);
  // Whoever is woken late, or not at all, has waited in vain if it does not ask once more.
  return (await look()) ?? (await acquire({ ...options, waitMs: 0 }).catch(busy));
}

/** Undefined when `signal` aborts first. */
async function untilTaken(
  clock: Clock,
  look: LineParts["look"],
  signal: AbortSignal,
): Promise<Taken | undefined> {
  try {
    for (let nextMs = FIRST_LOOK_MS; ; nextMs *= 2) {
      await pause(clock, nextMs, signal);
      const taken = await orAborted(look(), signal);
      if (taken !== undefined) return taken;
    }
  } catch (error) {
    if (signal.aborted) return undefined;
    throw error;
  }
}

export function busy(error: unknown): AcquireTimeoutError {
  if (error instanceof AcquireTimeoutError) return error;
  throw error;
}
