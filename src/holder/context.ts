// The async context (core/context.ts) as the caller sees it: with the whole lease, not only what guards need of it.

import { currentHeld } from "../core/context.ts";
import type { Lease } from "./lease.ts";

/** The lease of the innermost `lease.run()` around this code, or undefined outside of any. */
export function currentLease(): Lease | undefined {
  // Lease.run() is the only one that puts something in.
  return currentHeld() as Lease | undefined;
}
