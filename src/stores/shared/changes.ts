// For stores that watch by polling: what changed between two reads of the held leases, and when the next read is due.

import type { LeaseView } from "../contract.ts";

/** Yields what changed since the last call with the same map, and brings the map up to date. */
export function* changes(
  seen: Map<string, bigint>,
  held: readonly LeaseView[],
): Generator<LeaseView> {
  const now = new Map(held.map((view) => [view.resource, view]));
  for (const resource of [...seen.keys()]) {
    if (now.has(resource)) continue;
    seen.delete(resource);
    yield { resource };
  }
  for (const view of held) {
    if (view.holder === undefined || seen.get(view.resource) === view.holder.token) continue;
    seen.set(view.resource, view.holder.token);
    yield view;
  }
}

/** In how many milliseconds the first of these leases expires unless it is renewed; Infinity when nothing is held. */
export function firstExpiryMs(held: readonly LeaseView[]): number {
  // A loop: Math.min(...list) throws a RangeError when a watch covers more than about 100,000 leases.
  let first = Number.POSITIVE_INFINITY;
  for (const { holder } of held)
    if (holder !== undefined && holder.expiresInMs < first) first = holder.expiresInMs;
  return first;
}
