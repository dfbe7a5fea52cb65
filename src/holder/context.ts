// Which lease the running code works under. `lease.run()` sets it, and everything awaited inside finds it, so that
// deep code and guards need no extra parameter.

import { AsyncLocalStorage } from "node:async_hooks";
import type { Lease } from "./lease.ts";

const storage = new AsyncLocalStorage<Lease>();

export function runUnder<T>(lease: Lease, work: () => T): T {
  return storage.run(lease, work);
}

/** The lease of the innermost `lease.run()` around this code, or undefined outside of any. */
export function currentLease(): Lease | undefined {
  return storage.getStore();
}
