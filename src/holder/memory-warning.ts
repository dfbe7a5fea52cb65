// A memory store gives the same lease to every process. A guard that several processes share cannot keep them apart then, so
// a program that combines the two is warned.

import type { Store } from "../stores/contract.ts";

let hasWarned = false;

/** What a lease of this store does when it reaches a guard that outlives the process: warns, once per process. */
export function memoryWarning(
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
