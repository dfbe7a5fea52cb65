// Goal: close() leaves no lease, session, waiter or timer, and never rejects. Method: close at
// every step of an acquisition and of a lease, then count timers and inspect the store.
import { describe, expect, test } from "vitest";
import {
  down,
  flush,
  Gate,
  hang,
  makeWorld,
  outcome,
  RENEW_EVERY_MS,
  SAFE_MS,
  TIMING,
} from "../../test/support/holder/holder-world.ts";
import { ClosedError, LeaseLostError, TenureError } from "../core/errors.ts";

describe("close", () => {
  test("L4: it releases every lease of every session, ends the sessions and leaves no timer", async () => {
    const { clock, backend, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const leases = [
      await one.tenure.acquire("a"),
      await one.tenure.acquire("b"),
      await one.tenure.acquire("c", { ttlMs: 60_000 }),
    ];
    await one.tenure.close();
    expect(clock.timers).toBe(0);
    expect(backend.sessions.size).toBe(0);
    for (const lease of leases) {
      expect(() => lease.check()).toThrow(LeaseLostError);
      expect((await two.tenure.tryAcquire(lease.resource))?.token).toBe(2n);
    }
  });

  test("L4: it lets work in flight finish before it sends the release", async () => {
    const { join } = makeWorld();
    const { tenure, store } = await join("one");
    const lease = await tenure.acquire("settlement");
    const gate = new Gate();
    const work = lease.run(() => gate.opened.then(() => lease.check()));
    const closed = tenure.close();
    expect(await outcome(closed)).toBe("pending");
    expect(store.calls.release).toBe(0);
    gate.open();
    expect(await work).toBe(1n);
    await closed;
    expect(store.calls).toMatchObject({ release: 1, endSession: 1 });
    expect(store.closed).toBe(1);
  });

  test("S6: from the call on no lease accepts new work, even while an acquisition waits for a store that is down", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const lease = await tenure.acquire("settlement");
    store.hooks.grant = hang;
    const acquiring = tenure.acquire("ledger").catch((error: unknown) => error);
    await flush();
    const closed = tenure.close();
    let started = 0;
    await expect(lease.run(() => ++started)).rejects.toBeInstanceOf(TenureError);
    expect(started).toBe(0);
    await clock.advance(5_000);
    expect(await acquiring).toBeInstanceOf(ClosedError);
    await closed;
  });

  test("a second call returns the same promise", async () => {
    const { join } = makeWorld();
    const { tenure, store } = await join("one");
    await tenure.acquire("settlement");
    expect(tenure.close()).toBe(tenure.close({ drainMs: 1 }));
    await tenure.close();
    await tenure[Symbol.asyncDispose]();
    expect(store.closed).toBe(1);
  });

  test("every call after it is rejected with ClosedError", async () => {
    const { join } = makeWorld();
    const { tenure } = await join("one");
    await tenure.close();
    const calls = [
      () => tenure.acquire("a"),
      () => tenure.tryAcquire("a"),
      () => tenure.withLease("a", () => 1),
      () => tenure.read("a"),
      () => tenure.revoke("a"),
      () => tenure.list("").next(),
      () => tenure.watch("").next(),
    ];
    for (const call of calls) await expect(call()).rejects.toBeInstanceOf(ClosedError);
  });

  test("S7: it neither rejects nor hangs if the store is down", async () => {
    for (const hook of [down, hang]) {
      const { clock, join } = makeWorld();
      const { tenure, store } = await join("one");
      await tenure.acquire("a");
      store.hookAll(hook);
      const closed = tenure.close();
      await clock.advance(10_000);
      expect(await outcome(closed)).toEqual({ value: undefined });
      expect(clock.timers).toBe(0);
    }
  });

  test("it ends every watch", async () => {
    const { join } = makeWorld();
    const { tenure } = await join("one");
    const seen: string[] = [];
    const watching = (async () => {
      for await (const view of tenure.watch("")) seen.push(view.resource);
    })();
    await tenure.acquire("settlement");
    await flush();
    await tenure.close();
    await watching;
    expect(seen).toContain("settlement");
  });
});

describe("close while work hangs", () => {
  test("S6: the signal aborts after drainMs, and the resource stays busy until the ttl has passed", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const lease = await one.tenure.acquire("settlement");
    const { signal } = lease;
    void lease.run(hang);
    const closed = one.tenure.close({ drainMs: 1_000 });
    await clock.advance(999);
    expect(signal.aborted).toBe(false);
    await clock.advance(1);
    expect(signal.reason).toMatchObject({ reason: "released" });
    await clock.advance(SAFE_MS);
    await closed;
    const renewedAt = 2 * RENEW_EVERY_MS;
    const endsAt = renewedAt + TIMING.ttlMs;
    expect(one.store.calls).toMatchObject({ release: 0, endSession: 0, renew: 2 });
    await clock.advance(endsAt - 1_000 - SAFE_MS - 1);
    expect(await two.tenure.tryAcquire("settlement")).toBeUndefined();
    await clock.advance(1);
    expect((await two.tenure.tryAcquire("settlement"))?.token).toBe(2n);
  });

  test("leases without work are released immediately", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const busy = await one.tenure.acquire("busy");
    await one.tenure.acquire("idle");
    void busy.run(hang);
    const closed = one.tenure.close({ drainMs: 100 });
    await flush();
    expect((await two.tenure.tryAcquire("idle"))?.token).toBe(2n);
    await clock.advance(TIMING.ttlMs);
    await closed;
    expect(clock.timers).toBeGreaterThan(0);
    await two.tenure.close();
    expect(clock.timers).toBe(0);
  });
});

describe("close during an acquisition", () => {
  test("a waiter rejects with ClosedError and leaves no queue entry", async () => {
    const { clock, backend, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    await one.tenure.acquire("settlement");
    const atStore = two.tenure.acquire("settlement", { waitMs: Number.POSITIVE_INFINITY });
    const inLine = two.tenure.acquire("settlement");
    await flush();
    const before = clock.timers;
    await two.tenure.close();
    for (const waiting of [atStore, inLine]) {
      expect(await outcome(waiting)).toMatchObject({ error: { code: "CLOSED" } });
    }
    expect(clock.timers).toBeLessThan(before);
    await one.tenure.close();
    expect(clock.timers).toBe(0);
    expect(backend.entries.get("settlement")?.queue).toEqual([]);
  });

  test("a caller that pauses because the store is down rejects with ClosedError", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    store.hooks.openSession = down;
    const waiting = tenure.acquire("settlement");
    await flush();
    await tenure.close();
    expect(await outcome(waiting)).toMatchObject({ error: { code: "CLOSED" } });
    expect(clock.timers).toBe(0);
  });

  test.each(["openSession", "grant"] as const)(
    "an acquisition with %s in flight rejects with ClosedError, and nothing remains at the store",
    async (method) => {
      const { clock, backend, join } = makeWorld();
      const { tenure, store } = await join("one");
      const held = await tenure.acquire("other", { ttlMs: 60_000 });
      const gate = new Gate();
      // Work in flight delays close(), so that the answer comes before the store is closed.
      const work = held.run(() => gate.opened);
      const answered = new Gate();
      const slow = <T>(_: unknown, forward: () => Promise<T>): Promise<T> =>
        forward().then((answer) => answered.opened.then(() => answer));
      Object.assign(store.hooks, { [method]: slow });
      const acquiring = tenure.acquire("settlement");
      await flush();
      const closed = tenure.close();
      answered.open();
      await flush();
      expect(await outcome(acquiring)).toMatchObject({ error: { code: "CLOSED" } });
      gate.open();
      await work;
      await closed;
      expect(clock.timers).toBe(0);
      expect(backend.entries.get("settlement")?.held).toBeUndefined();
      expect(backend.sessions.size).toBe(0);
    },
  );

  test("at any step, an acquisition ends in a released lease or in ClosedError, without a timer left", async () => {
    const left: { turn: number; timers: number; holding: boolean }[] = [];
    for (let turn = 0; turn < 60; turn += 1) {
      const { clock, join } = makeWorld();
      const { tenure } = await join("one");
      const acquiring = outcome(tenure.acquire("settlement"));
      for (let wait = 0; wait < turn; wait += 1) await Promise.resolve();
      await tenure.close();
      await acquiring;
      const reader = await join("reader");
      const { holder } = await reader.tenure.read("settlement");
      if (clock.timers > 0 || holder !== undefined) {
        left.push({ turn, timers: clock.timers, holding: holder !== undefined });
      }
    }
    expect(left).toEqual([]);
  });

  test("the leases of all callers that share an opening are released", async () => {
    const { clock, backend, join } = makeWorld();
    const { tenure } = await join("one");
    const waiting: Promise<unknown>[] = [];
    for (let tick = 0; tick < 60; tick += 1) {
      waiting.push(tenure.acquire(`row/${tick}`));
      await Promise.resolve();
    }
    await Promise.all(waiting);
    await tenure.close();
    expect(backend.sessions.size).toBe(0);
    expect(clock.timers).toBe(0);
  });
});

test("no rejected promise remains unhandled when everything fails", async () => {
  const unheard: unknown[] = [];
  const listen = (reason: unknown): void => void unheard.push(reason);
  process.on("unhandledRejection", listen);
  const { clock, join } = makeWorld();
  const [one, two] = [await join("one"), await join("two")];
  const lease = await one.tenure.acquire("settlement");
  void lease.run(hang);
  void lease.release({ drainMs: 100 });
  // These two promises belong to the caller, who handles them.
  const waiting = two.tenure.acquire("settlement", { waitMs: 500 }).catch(() => undefined);
  const settled = lease.confirmed().catch(() => undefined);
  one.store.hookAll(down);
  await clock.advance(2 * TIMING.ttlMs);
  const late = one.tenure.acquire("ledger").catch(() => undefined);
  two.store.hookAll(hang);
  clock.jump();
  void one.tenure.close({ drainMs: 10 });
  void two.tenure.close();
  await clock.advance(60_000);
  await Promise.all([waiting, settled, late]);
  // Node reports an unhandled rejection after the microtasks of this turn.
  await new Promise((resolve) => setImmediate(resolve));
  process.off("unhandledRejection", listen);
  expect(unheard).toEqual([]);
  expect(clock.timers).toBe(0);
});
