// For stores that watch by looking again: what is different between two looks at the held leases.

import type { LeaseView } from "../store.ts";

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
