// The store in memory, for tests and for coordination inside one process. It is also the reference
// for what each request of the contract does: other stores must give the same answers, with one
// exception. This store remembers more granted attempts than the contract requires (see
// `Session.granted` in backend.ts).

import type { OpenStore } from "../contract.ts";
import { MemoryBackend, type MemoryBackendOptions } from "./backend.ts";
import { MemoryStore } from "./store.ts";

export { MemoryBackend, type MemoryBackendOptions };

/** A store in this process. Pass the same backend to several stores to let them compete. */
export function memoryStore(backend: MemoryBackend = new MemoryBackend()): OpenStore {
  return async (parts) => new MemoryStore(backend, parts.clock);
}
