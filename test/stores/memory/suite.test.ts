// Runs the conformance suite on the memory store, with a clock that only the suite advances.

import type { Store } from "../../../src/stores/contract.ts";
import { MemoryBackend, memoryStore } from "../../../src/stores/memory/index.ts";
import { ManualClock, manualRandom, storeSuite } from "../../../src/testing/index.ts";
import { sideBySide } from "../../support/stores/store-runner.ts";

storeSuite(sideBySide, {
  name: "memory",
  ttlMs: 10_000,
  guarantees: { fifo: true, durable: false },
  forgets: ["the process started again"],
  create: async () => {
    const clock = new ManualClock();
    let open = memoryStore(new MemoryBackend());
    const opened: Store[] = [];
    return {
      forgetting: {
        "the process started again": async () => async () => {
          for (const store of opened.splice(0)) await store.close();
          await clock.advance(1_000);
          open = memoryStore(new MemoryBackend());
        },
      },
      open: async () => {
        const parts = {
          clock,
          hostClock: clock.hostClock,
          random: manualRandom(),
          warn: () => undefined,
        };
        const store = await open(parts);
        opened.push(store);
        return store;
      },
      sleep: (ms) => clock.advance(ms),
      now: () => clock.now(),
      close: async () => undefined,
    };
  },
});
