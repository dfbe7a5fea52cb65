// untilFree() of a store without handoff. Tests of stores that have it call this function.

import type { AttemptRequest, Store } from "../../../src/stores/contract.ts";

export function waitUntilFree(
  store: Store,
  request: AttemptRequest & { readonly signal: AbortSignal },
): Promise<void> {
  if (store.untilFree === undefined) throw new Error(`${store.guarantees.store} hands off`);
  return store.untilFree(request);
}
