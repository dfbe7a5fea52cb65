// The lease of the running code (async/context.ts) as a public function.

import { currentHeld } from "../async/context.ts";
import { HeldLease } from "./held-lease.ts";
import type { Lease } from "./lease.ts";

/** The lease of the innermost `lease.run()` around this code, or undefined outside of any. */
export function currentLease(): Lease | undefined {
  const held = currentHeld();
  // A handler behind httpGuard() runs under a token from a request, which is not a lease of this
  // process.
  return held instanceof HeldLease ? held : undefined;
}
