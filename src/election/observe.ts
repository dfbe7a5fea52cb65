// Who leads, for those who follow: one read, or every change by push. Nobody leading is told as well, also at first.

import { linkSignals } from "../async/signals.ts";
import type { Leases } from "../holder/leases.ts";
import type { HolderView, LeaseView } from "../stores/contract.ts";

export interface Leader {
  /** The number of this reign: the lease's token. Every later leader has a larger one. */
  readonly term: bigint;
  readonly holderId: string;
  /** What it published with its candidacy. */
  readonly value: unknown;
  /** For how long it has had the lease, as `HolderView` says it: for people to read, not to decide anything by. */
  readonly heldForMs?: number | undefined;
}

export function leaderOf(holder: HolderView | undefined): Leader | undefined {
  if (holder === undefined) return undefined;
  const { token: term, holderId, value, heldForMs } = holder;
  return { term, holderId, value, heldForMs };
}

const NOBODY = Symbol("nobody holds it");

/** Begins with the present state; ends when the signal aborts or the loop is left. */
export async function* observe(
  leases: Leases,
  name: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<Leader | undefined, void, undefined> {
  // A watch is silent about what nobody holds; that it has told all there was is how we know.
  let onCaughtUp = (): void => undefined;
  const caughtUp = new Promise<typeof NOBODY>((resolve) => {
    onCaughtUp = () => resolve(NOBODY);
  });
  const leaving = new AbortController();
  const ending = linkSignals(leaving.signal, signal);
  const options = { signal: ending.signal, onCaughtUp };
  const views = onlyOf(name, leases.watch(name, options));
  try {
    let next = views.next();
    if ((await Promise.race([next, caughtUp])) === NOBODY) yield undefined;
    for (;;) {
      const { done, value } = await next;
      if (done) return;
      yield leaderOf(value.holder);
      next = views.next();
    }
  } finally {
    // First the signal: a generator that waits for its next value cannot be returned from.
    leaving.abort();
    ending.unlink();
    await views.return();
  }
}

/** A prefix also covers longer names. */
async function* onlyOf(
  resource: string,
  views: AsyncIterable<LeaseView>,
): AsyncGenerator<LeaseView, void, undefined> {
  for await (const view of views) if (view.resource === resource) yield view;
}
