// Who asks when. A candidate that is not first in rank does not queue: it sees that nobody leads, lets those before it have
// their time, and asks then. One that found a wish for somebody else lets that one come. Both only wait, and both have an end.

import type { Clock } from "../async/clock.ts";
import { linkSignals } from "../async/signals.ts";
import type { Leases } from "../holder/leases.ts";
import { type Leader, observe } from "./observe.ts";

/**
 * How long a candidate holds back for each step of its rank. Twice the head start of a queue, so that one that is stuck at
 * its head does not make the next rank come first.
 */
export const RANK_STEP_MS = 500;
export const RANK_MAX = 20;

interface Parts {
  readonly leases: Leases;
  readonly clock: Clock;
  readonly name: string;
  readonly signal: AbortSignal;
}

/**
 * Resolves when nobody has led for so long: `delayMs` is asked whenever the place becomes vacant. Rejects when the signal
 * aborts, or the store cannot be watched.
 */
export async function untilVacantFor(parts: Parts, delayMs: () => Promise<number>): Promise<void> {
  const { clock } = parts;
  const done = new AbortController();
  let timer: { cancel(): void } | undefined;
  let vacancies = 0;
  try {
    await follow(parts, done.signal, async (leader) => {
      vacancies += 1;
      timer?.cancel();
      if (leader !== undefined) return;
      const mine = vacancies;
      const waitMs = await delayMs();
      // Somebody may have come, and gone again, while we asked.
      if (mine !== vacancies) return;
      if (waitMs === 0) done.abort();
      else timer = clock.setTimer(() => done.abort(), waitMs, { keepAlive: true });
    });
  } finally {
    timer?.cancel();
  }
}

/** Resolves when this holder leads, or `limitMs` are over. Rejects when the signal aborts. */
export async function untilLed(parts: Parts, holderId: string, limitMs: number): Promise<void> {
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
  { leases, name, signal }: Parts,
  done: AbortSignal,
  seen: (leader: Leader | undefined) => unknown,
): Promise<void> {
  const ending = linkSignals(signal, done);
  try {
    for await (const leader of observe(leases, name, ending.signal)) {
      if (done.aborted) break;
      void seen(leader);
    }
  } finally {
    ending.unlink();
  }
  signal.throwIfAborted();
}
