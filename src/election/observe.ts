// Follows the leader of an election through a watch of its lease. Reports vacancies too, including
// one at the start.

import { linkSignals } from "../async/signals.ts";
import type { Leases } from "../holder/leases.ts";
import type { HolderView, LeaseView } from "../stores/contract.ts";

/** The holder that leads, as other processes see it. */
export interface Leader {
  /** The term: the token of the leader's lease. Every later leader has a larger one. */
  readonly term: bigint;
  /** The `holderId` of the leader's Tenure. */
  readonly holderId: string;
  /** The `value` that it published with its candidacy. */
  readonly value: unknown;
  /** How long it has held the lease (see `HolderView`). For people to read, not for decisions. */
  readonly heldForMs?: number | undefined;
}

export function toLeader(holder: HolderView | undefined): Leader | undefined {
  if (holder === undefined) return undefined;
  const { token: term, holderId, value, heldForMs } = holder;
  return { term, holderId, value, heldForMs };
}

const VACANT = Symbol("there is no leader");

/** Begins with the present state; ends when the signal aborts or the loop is left. */
export async function* observe(
  leases: Leases,
  name: string,
  signal: AbortSignal | undefined,
): AsyncGenerator<Leader | undefined, void, undefined> {
  // A watch does not report free resources. If it has caught up without reporting this one, there
  // is no leader.
  let onCaughtUp = (): void => undefined;
  const caughtUp = new Promise<typeof VACANT>((resolve) => {
    onCaughtUp = () => resolve(VACANT);
  });
  const leaving = new AbortController();
  const ending = linkSignals(leaving.signal, signal);
  const options = { signal: ending.signal, onCaughtUp };
  const views = filterResource(name, leases.watch(name, options));
  try {
    let next = views.next();
    if ((await Promise.race([next, caughtUp])) === VACANT) yield undefined;
    for (;;) {
      const { done, value } = await next;
      if (done) return;
      yield toLeader(value.holder);
      next = views.next();
    }
  } finally {
    // The signal first: return() would wait for a generator that is waiting for its next value.
    leaving.abort();
    ending.unlink();
    await views.return();
  }
}

/** A watch covers every name with the prefix; this keeps the exact name. */
async function* filterResource(
  resource: string,
  views: AsyncIterable<LeaseView>,
): AsyncGenerator<LeaseView, void, undefined> {
  for await (const view of views) if (view.resource === resource) yield view;
}
