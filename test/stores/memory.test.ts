// The memory store against the conformance suite, on a clock that only the suite moves.

import { MemoryBackend, memoryStore } from "../../src/stores/memory.ts";
import { ManualClock, manualRandom, storeSuite } from "../../src/testing/index.ts";
import { sideBySide } from "../support/store-runner.ts";

storeSuite(sideBySide, {
  name: "memory",
  ttlMs: 10_000,
  guarantees: { fifo: true, durable: false },
  create: async () => {
    const clock = new ManualClock();
    const open = memoryStore(new MemoryBackend());
    return {
      open: () => open({ clock, hostClock: clock.hostClock, random: manualRandom() }),
      sleep: (ms) => clock.advance(ms),
      now: () => clock.now(),
      close: async () => undefined,
    };
  },
});
