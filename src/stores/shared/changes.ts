// Used by watch() of all stores. Whenever a store has read the held leases again (after a
// notification, after an expiry, or because changes may have been missed), this file computes what
// has changed since the last read. It also computes when the first of the leases can expire.

import type { LeaseView } from "../contract.ts";

/** Yields the changes since the last call with the same map, and updates the map. */
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

/** Milliseconds until the first of these leases can expire; Infinity if nothing is held. */
export function firstExpiryMs(held: readonly LeaseView[]): number {
  // A loop, because Math.min(...list) throws a RangeError for more than about 100,000 leases.
  let first = Number.POSITIVE_INFINITY;
  for (const { holder } of held)
    if (holder !== undefined && holder.expiresInMs < first) first = holder.expiresInMs;
  return first;
}
