// Runs the conformance suite on the record engine over a mock of a backend, in three variants: one
// that is polled, one that pushes records, and one that only says that something has changed.

import { type MockOptions, RecordMock } from "../../../test/support/stores/record-mock.ts";
import { sideBySide } from "../../../test/support/stores/store-runner.ts";
import { ManualClock, manualRandom, storeSuite } from "../../testing/index.ts";
import { recordStore } from "./store.ts";

const variants: readonly (readonly [name: string, options: MockOptions])[] = [
  ["records that are polled", {}],
  ["records that are pushed", { push: true, conflictRecords: true }],
  ["records whose changes are announced", { push: true, pushRecords: false, digests: true }],
];

for (const [name, options] of variants)
  storeSuite(sideBySide, {
    name,
    // Short, because one rule asks for the lease in every millisecond of it.
    ttlMs: 2_000,
    guarantees: { fifo: true, durable: true },
    forgets: ["all records were deleted"],
    create: async () => {
      const clock = new ManualClock();
      const random = manualRandom();
      const mock = new RecordMock(options);
      const open = recordStore(async () => mock.connect());
      return {
        open: () => open({ clock, hostClock: clock.hostClock, random, warn: () => undefined }),
        sleep: (ms) => clock.advance(ms),
        now: () => clock.now(),
        restart: async () => undefined,
        // A token goes up far more slowly than one per microsecond, so some time has passed.
        deleteRows: async (resource) => {
          await clock.advance(1);
          mock.records.delete(`lease/${resource}`);
        },
        setToken: async (resource, token) =>
          mock.put(`lease/${resource}`, JSON.stringify({ v: 1, token: String(token), queue: [] })),
        forgetting: {
          "all records were deleted": async () => async () => {
            await clock.advance(1);
            mock.records.clear();
          },
        },
        close: async () => undefined,
      };
    },
  });
