// The async context (core/context.ts) as the caller sees it: with the whole lease, not only what guards need of it.

import { currentHeld } from "../async/context.ts";
import { Lease } from "./lease.ts";

/** The lease of the innermost `lease.run()` around this code, or undefined outside of any. */
export function currentLease(): Lease | undefined {
  const held = currentHeld();
  // A handler behind httpGuard() runs under a token that came over the wire: that is no lease of this process.
  return held instanceof Lease ? held : undefined;
}
