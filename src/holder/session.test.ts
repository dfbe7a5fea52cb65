// Goal: one renewal per interval keeps all leases of a session; sessions are shared, opened when
// needed and ended when idle. Method: a manual clock, and a wrapped store that counts every request
// and records its time.
import { describe, expect, test } from "vitest";
import {
  down,
  flush,
  makeWorld,
  outcome,
  RENEW_EVERY_MS,
  SAFE_MS,
  TIMING,
} from "../../test/support/holder/holder-world.ts";
import type { TimerOptions } from "../async/clock.ts";
import { planTiming } from "../core/timing.ts";
import { memoryStore } from "../stores/memory/index.ts";
import { ManualClock, manualRandom } from "../testing/manual-clock.ts";
import { Leases } from "./leases.ts";
import { Sessions } from "./sessions.ts";

describe("renewal", () => {
  test("a thousand leases cost one renewal request per renewEveryMs", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const leases = await Promise.all(
      Array.from({ length: 1_000 }, (_, index) => tenure.acquire(`row/${index}`)),
    );
    expect(store.calls).toMatchObject({ openSession: 1, grant: 1_000, renew: 0 });
    await clock.advance(10 * RENEW_EVERY_MS);
    expect(store.calls.renew).toBe(10);
    for (const lease of leases) expect(lease.check()).toBe(1n);
  });

  test("renewals are sent a third of the ttl apart, whatever their answers take", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const startedAt = clock.now();
    const sentAfter: number[] = [];
    store.hooks.renew = async (_, forward) => {
      sentAfter.push(clock.now() - startedAt);
      const answer = await forward();
      await new Promise<void>((resolve) => {
        clock.setTimer(resolve, 800);
      });
      return answer;
    };
    const lease = await tenure.acquire("settlement");
    await clock.advance(12_900);
    expect(sentAfter).toEqual([3_000, 6_000, 9_000, 12_000]);
    expect(lease.safeUntil).toBe(startedAt + 12_000 + SAFE_MS);
  });

  test("leases with the longest ttl live on renewals alone for a whole day", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one", { ttlMs: 60_000 });
    const lease = await tenure.acquire("settlement");
    await clock.advance(24 * 60 * 60 * 1_000);
    expect(lease.check()).toBe(1n);
    expect(store.calls).toMatchObject({ openSession: 1, grant: 1, renew: 24 * 60 * 3 });
  });
});

describe("sharing", () => {
  test("callers at any step of the opening share one session", async () => {
    const { join } = makeWorld();
    const { tenure, store } = await join("one");
    const waiting: Promise<unknown>[] = [];
    for (let tick = 0; tick < 60; tick += 1) {
      waiting.push(tenure.acquire(`row/${tick}`));
      await Promise.resolve();
    }
    await Promise.all(waiting);
    expect(store.calls.openSession).toBe(1);
  });

  test("each set of timing numbers has its own session", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    await tenure.acquire("a");
    await tenure.acquire("b");
    await tenure.acquire("c", { ttlMs: 60_000 });
    await tenure.acquire("d", { ttlMs: 60_000 });
    expect(store.calls.openSession).toBe(2);
    await clock.advance(60_000);
    expect(store.calls.renew).toBe(20 + 3);
  });

  test("the next caller retries a failed opening", async () => {
    const { join } = makeWorld();
    const { tenure, store } = await join("one");
    store.hooks.openSession = down;
    const first = outcome(tenure.tryAcquire("a"));
    await flush();
    store.hooks.openSession = undefined;
    expect((await tenure.tryAcquire("b"))?.token).toBe(1n);
    expect(await first).toBe("pending");
  });
});

describe("idle sessions", () => {
  test("a session without leases is ended instead of renewed, and no timer remains", async () => {
    const { clock, backend, join } = makeWorld();
    const { tenure, store } = await join("one");
    const lease = await tenure.acquire("settlement");
    await lease.release();
    await clock.advance(RENEW_EVERY_MS);
    expect(store.calls).toMatchObject({ renew: 0, endSession: 1 });
    expect(backend.sessions.size).toBe(0);
    expect(clock.timers).toBe(0);
  });

  test("the next acquisition after an idle end opens a new session", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    await (await tenure.acquire("settlement")).release();
    await clock.advance(RENEW_EVERY_MS);
    expect((await tenure.acquire("settlement")).check()).toBe(2n);
    expect(store.calls.openSession).toBe(2);
  });

  test("an idle session whose end is lost expires by its ttl", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    await (await tenure.acquire("settlement")).release();
    store.hooks.endSession = down;
    await clock.advance(60_000);
    expect(clock.timers).toBe(0);
    expect((await tenure.acquire("settlement")).check()).toBe(2n);
  });

  test("a session is kept while an acquisition waits with it, before there is a lease", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const held = await one.tenure.acquire("settlement");
    const waiting = two.tenure.acquire("settlement", { waitMs: 120_000 });
    await clock.advance(60_000);
    expect(two.store.calls).toMatchObject({ openSession: 1, renew: 20 });
    await held.release();
    expect((await waiting).check()).toBe(2n);
  });
});

test("sessions that have ended are dropped, however many timings were used", async () => {
  const clock = new ManualClock();
  const random = manualRandom();
  const store = await memoryStore()({
    clock,
    hostClock: clock.hostClock,
    random,
    warn: () => undefined,
  });
  const sessions = new Sessions({ store, clock, random, holderId: "one", keepAlive: false });
  const timings = Array.from({ length: 50 }, (_, index) => planTiming({ ttlMs: 9_000 + index }));
  for (const timing of timings) await sessions.live(timing);
  expect(sessions.all()).toHaveLength(50);
  await clock.advance(60_000);
  expect(sessions.all()).toHaveLength(0);
});

describe("the granted ttl", () => {
  test("a shorter ttl than requested moves the deadline", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    store.hooks.openSession = async (_, forward) => {
      await forward();
      return { ttlMs: 8_500 };
    };
    const lease = await tenure.acquire("settlement");
    expect(lease.safeUntil).toBe(clock.now() + 8_500 - 1_000);
  });

  test("a ttl too short for one lost renewal is rejected with TimingError", async () => {
    const { join } = makeWorld();
    const { tenure, store } = await join("one");
    store.hooks.openSession = async (_, forward) => {
      await forward();
      return { ttlMs: 7_000 };
    };
    await expect(tenure.acquire("settlement")).rejects.toMatchObject({
      code: "TIMING",
      rule: "availability",
    });
  });

  test("S3: an opening that took longer than the ttl gives no session, and a new one is opened", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    store.hooks.openSession = async (_, forward) => {
      store.hooks.openSession = undefined;
      const answer = await forward();
      clock.stall(SAFE_MS);
      return answer;
    };
    const trying = tenure.tryAcquire("settlement");
    await flush();
    await clock.advance(100);
    const lease = await trying;
    expect(store.calls.openSession).toBe(2);
    expect(lease?.safeUntil).toBeGreaterThan(clock.now());
  });
});

describe("timers", () => {
  class RecordingClock extends ManualClock {
    readonly kept: { readonly delayMs: number; readonly keepAlive: boolean }[] = [];

    override setTimer(callback: () => void, delayMs: number, options?: TimerOptions) {
      this.kept.push({ delayMs, keepAlive: options?.keepAlive === true });
      return super.setTimer(callback, delayMs);
    }
  }

  test.each([false, true])(
    "timers of a session keep the process alive as configured: %s",
    async (keepAlive) => {
      const clock = new RecordingClock();
      const random = manualRandom();
      const store = await memoryStore()({
        clock,
        hostClock: clock.hostClock,
        random,
        warn: () => undefined,
      });
      const tenure = new Leases({
        store,
        clock,
        random,
        holderId: "one",
        defaults: TIMING,
        keepAlive,
        warn: () => undefined,
      });
      await tenure.acquire("settlement");
      const ofSession = clock.kept.filter(({ delayMs }) =>
        [RENEW_EVERY_MS, SAFE_MS].includes(delayMs),
      );
      expect(ofSession).toEqual([
        { delayMs: RENEW_EVERY_MS, keepAlive },
        { delayMs: SAFE_MS, keepAlive },
      ]);
    },
  );

  test("a pending confirmed() keeps the process alive until the doubt ends", async () => {
    const clock = new RecordingClock();
    const { tenure, store } = await makeWorld(clock).join("one");
    const lease = await tenure.acquire("settlement");
    store.hooks.renew = down;
    await clock.advance(RENEW_EVERY_MS);
    const before = clock.timers;
    clock.kept.length = 0;
    const settled = lease.confirmed();
    expect(clock.kept).toEqual([{ delayMs: SAFE_MS - RENEW_EVERY_MS, keepAlive: true }]);
    store.hooks.renew = undefined;
    await clock.advance(100);
    await settled;
    expect(clock.timers).toBe(before);
  });
});
