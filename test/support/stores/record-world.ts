// Processes that share one mock of a backend with conditional writes, for the tests of the record
// engine. Each process has its own store, and may have its own clock.
import { onTestFinished } from "vitest";
import { type RecordStoreOptions, recordStore } from "../../../src/stores/record/store.ts";
import { ManualClock, manualRandom } from "../../../src/testing/index.ts";
import { Bench, type Client } from "../../../src/testing/store-suite/harness.ts";
import { type MockOptions, RecordMock } from "./record-mock.ts";

/** The ttl of every session, unless a test says otherwise. */
export const TTL_MS = 10_000;

export interface RecordWorld {
  readonly mock: RecordMock;
  readonly clock: ManualClock;
  /** Starts a process with one session. */
  start(name: string, options?: StartOptions): Promise<Client>;
  /** Returns how many reads and writes the step needs. */
  count(step: () => Promise<unknown>): Promise<{ reads: number; writes: number }>;
}

interface StartOptions {
  readonly clock?: ManualClock;
  readonly ttlMs?: number;
  readonly quietAfterMs?: number;
}

export function recordWorld(
  mockOptions: MockOptions = {},
  storeOptions: RecordStoreOptions = {},
): RecordWorld {
  const mock = new RecordMock(mockOptions);
  const clock = new ManualClock();
  const random = manualRandom();
  const openStore = recordStore(async () => mock.connect(), storeOptions);
  return {
    mock,
    clock,
    start: async (name, { clock: own = clock, ttlMs = TTL_MS, quietAfterMs } = {}) => {
      const open = () =>
        openStore({ clock: own, hostClock: own.hostClock, random, warn: () => undefined });
      const sleep = (ms: number): Promise<void> => clock.advance(ms);
      const harness = { open, sleep, now: () => clock.now(), close: async () => undefined };
      const bench = new Bench(harness, TTL_MS);
      onTestFinished(() => bench.close());
      return bench.session(await bench.store(), name, ttlMs, quietAfterMs);
    },
    count: async (step) => {
      const { reads, writes } = mock.counts;
      await step();
      return { reads: mock.counts.reads - reads, writes: mock.counts.writes - writes };
    },
  };
}

/** The outcome of a request that may need the clock to move. */
export function settled(request: Promise<unknown>): Promise<{ value?: unknown; error?: unknown }> {
  return request.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  );
}
