// Delays a candidate's request for the lease. A candidate of rank 1 or higher does not queue: it
// waits until there has been no leader for its delay. A candidate that yielded to a preferred one
// waits until that one leads. Both waits are bounded, and neither affects safety.

import type { Clock } from "../async/clock.ts";
import { linkSignals } from "../async/signals.ts";
import type { Leases } from "../holder/leases.ts";
import { type Leader, observe } from "./observe.ts";

export interface WaitParts {
  readonly leases: Leases;
  readonly clock: Clock;
  readonly name: string;
  readonly signal: AbortSignal;
}

/**
 * Resolves when there has been no leader for a delay. `getDelayMs` is called for each vacancy.
 * Rejects if the signal aborts or the store cannot be watched.
 */
export async function waitForVacancy(
  parts: WaitParts,
  getDelayMs: () => Promise<number>,
): Promise<void> {
  const { clock } = parts;
  const done = new AbortController();
  let timer: { cancel(): void } | undefined;
  let changes = 0;
  try {
    await follow(parts, done.signal, async (leader) => {
      changes += 1;
      timer?.cancel();
      if (leader !== undefined) return;
      const thisChange = changes;
      const delayMs = await getDelayMs();
      // A leader may have come, and gone again, in the meantime.
      if (thisChange !== changes) return;
      if (delayMs === 0) done.abort();
      else timer = clock.setTimer(() => done.abort(), delayMs, { keepAlive: true });
    });
  } finally {
    timer?.cancel();
  }
}

/** Resolves when this holder leads or `limitMs` has passed. Rejects if the signal aborts. */
export async function waitForLeader(
  parts: WaitParts,
  holderId: string,
  limitMs: number,
): Promise<void> {
  const done = new AbortController();
  const timer = parts.clock.setTimer(() => done.abort(), limitMs, { keepAlive: true });
  try {
    await follow(parts, done.signal, (leader) => {
      if (leader?.holderId === holderId) done.abort();
    });
  } finally {
    timer.cancel();
  }
}

async function follow(
  { leases, name, signal }: WaitParts,
  done: AbortSignal,
  onLeader: (leader: Leader | undefined) => unknown,
): Promise<void> {
  const ending = linkSignals(signal, done);
  try {
    for await (const leader of observe(leases, name, ending.signal)) {
      if (done.aborted) break;
      void onLeader(leader);
    }
  } finally {
    ending.unlink();
  }
  signal.throwIfAborted();
}
