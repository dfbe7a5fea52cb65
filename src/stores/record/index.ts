// Makes a store from a backend with conditional writes. The stores on such backends call this; it
// is not public.

import type { OpenStore, StoreParts } from "../contract.ts";
import type { RecordBackend } from "./backend.ts";
import { RecordStore } from "./store.ts";

export interface RecordStoreOptions {
  /**
   * The largest error of the backend's own clock, in milliseconds. With it, a session whose record
   * is older than its ttl plus this error, by the backend's clock, counts as expired when it is
   * first seen. Too small: a live session can be ended. Absent: a session expires only after this
   * process has observed it for a full ttl.
   */
  readonly clockErrorMs?: number | undefined;
}

/** `connect` opens the backend. */
export function recordStore(
  connect: (parts: StoreParts) => Promise<RecordBackend>,
  { clockErrorMs }: RecordStoreOptions = {},
): OpenStore {
  return async (parts) => new RecordStore(await connect(parts), parts, clockErrorMs);
}
