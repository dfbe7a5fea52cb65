// Warns about a memory store combined with a guard that several processes share. Each process has
// its own memory store, so all of them can hold the same lease, and the guard cannot distinguish
// them.

import type { Store } from "../stores/contract.ts";

let hasWarned = false;

/**
 * The listener for leases of this store that are used with a guard whose tokens outlive the
 * process. It warns once per process. Undefined for stores that processes share.
 */
export function createMemoryWarning(
  store: Store,
  warn: (message: string) => void,
): (() => void) | undefined {
  if (store.guarantees.store !== "memory") return undefined;
  return () => {
    if (hasWarned) return;
    hasWarned = true;
    warn(
      "A lease of a memory store was used with a guard whose tokens outlive this process. A memory store is known to one " +
        "process only: two processes can hold the same lease, and the guard may admit both. Connect to a store that all " +
        "of them share, such as sqlite:./tenure.db.",
    );
  };
}
