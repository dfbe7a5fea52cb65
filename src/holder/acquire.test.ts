// Goal: waiters get the resource in order and as soon as possible, and a waiter that gives up
// leaves nothing at the store. Method: several processes on one memory backend and one manual
// clock; requests are counted and the queue is inspected.
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
import { AcquireTimeoutError, StoreUnavailableError, StoreUnusableError } from "../core/errors.ts";
import type { Tenure } from "../tenure.ts";
import type { Lease } from "./lease.ts";

test("the callers of all processes are served in the order of their calls", async () => {
  const { join } = makeWorld();
  const [one, two] = [await join("one"), await join("two")];
  const held = await (await join("holder")).tenure.acquire("settlement");
  const order: string[] = [];
  const call = (name: string, { tenure }: typeof one): Promise<void> =>
    tenure.withLease("settlement", () => void order.push(name));
  const calls: Promise<void>[] = [];
  for (const name of ["a1", "a2", "b1", "a3", "b2", "a4"]) {
    calls.push(call(name, name.startsWith("a") ? one : two));
    await flush();
  }
  await held.release();
  await Promise.all(calls);
  expect(order).toEqual(["a1", "a2", "b1", "a3", "b2", "a4"]);
});

describe("waiting", () => {
  test("L2: a waiter acquires the resource as soon as it is released, without a timer", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const held = await one.tenure.acquire("settlement");
    const waiting = two.tenure.acquire("settlement", { waitMs: 60_000 });
    await clock.advance(20_000);
    expect(await outcome(waiting)).toBe("pending");
    const releasedAt = clock.now();
    await held.release();
    expect((await waiting).check()).toBe(2n);
    expect(clock.now()).toBe(releasedAt);
  });

  test("L1: after a crash a waiter acquires when the ttl has passed, after the holder has stopped", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const crashedAt = clock.now();
    const dead = await one.tenure.acquire("settlement");
    one.store.hookAll(hang);
    const waiting = two.tenure.acquire("settlement", { waitMs: 60_000 });
    await clock.advance(TIMING.ttlMs - 1);
    expect(await outcome(waiting)).toBe("pending");
    expect(dead.signal.aborted).toBe(true);
    await clock.advance(1);
    expect((await waiting).token).toBe(2n);
    expect(clock.now()).toBe(crashedAt + TIMING.ttlMs);
  });

  test("waiters of several processes are served in the order of their requests", async () => {
    const { clock, join } = makeWorld();
    const held = await (await join("holder")).tenure.acquire("settlement");
    const order: string[] = [];
    const waits: Promise<void>[] = [];
    for (const name of ["first", "second", "third", "fourth"]) {
      const { tenure } = await join(name);
      const waiting = tenure.withLease(
        "settlement",
        { waitMs: 60_000 },
        () => void order.push(name),
      );
      waits.push(waiting);
      await flush();
    }
    await clock.advance(1_000);
    await held.release();
    await Promise.all(waits);
    expect(order).toEqual(["first", "second", "third", "fourth"]);
  });

  test("a waiter whose session ends opens a new one and acquires", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const held = await one.tenure.acquire("settlement", { ttlMs: 60_000 });
    const waiting = two.tenure.acquire("settlement", { waitMs: 60_000 });
    await flush();
    two.store.hooks.renew = down;
    await clock.advance(SAFE_MS + 100);
    two.store.hooks.renew = undefined;
    await clock.advance(1_000);
    expect(two.store.calls.openSession).toBe(2);
    await held.release();
    const lease = await waiting;
    expect(lease.check()).toBe(2n);
  });

  test("a store that is down when the wait begins is retried until it answers", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    store.hookAll(down);
    const waiting = tenure.acquire("settlement", { waitMs: 60_000 });
    await clock.advance(10_000);
    expect(await outcome(waiting)).toBe("pending");
    // The pauses double up to one second.
    expect(store.calls.openSession).toBeLessThan(25);
    store.unhook();
    await clock.advance(1_000);
    expect((await waiting).check()).toBe(1n);
  });
});

describe("giving up", () => {
  test("after waitMs the error names the holder, and no queue entry remains", async () => {
    const { clock, backend, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    await one.tenure.acquire("settlement");
    const waiting = two.tenure.acquire("settlement", { waitMs: 5_000 });
    await clock.advance(4_999);
    expect(await outcome(waiting)).toBe("pending");
    expect(backend.entries.get("settlement")?.queue).toHaveLength(1);
    await clock.advance(1);
    const { error } = (await outcome(waiting)) as { error: AcquireTimeoutError };
    expect(error).toBeInstanceOf(AcquireTimeoutError);
    expect(error).toMatchObject({ resource: "settlement", waitMs: 5_000, heldBy: "one" });
    expect(backend.entries.get("settlement")?.queue).toEqual([]);
  });

  test("a waitMs of 0 tries once, does not queue, and names the holder", async () => {
    const { backend, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    await one.tenure.acquire("settlement");
    await expect(two.tenure.acquire("settlement", { waitMs: 0 })).rejects.toMatchObject({
      code: "ACQUIRE_TIMEOUT",
      waitMs: 0,
      heldBy: "one",
    });
    expect(backend.entries.get("settlement")?.queue).toEqual([]);
    expect(two.store.calls.grant).toBe(1);
  });

  test("the timeout error says so if this process holds the resource, however it waited", async () => {
    const { clock, join } = makeWorld();
    const [one, namesake] = [await join("one"), await join("one")];
    const lease = await one.tenure.acquire("settlement");
    const refused = async (tenure: Tenure, waitMs: number): Promise<AcquireTimeoutError> =>
      tenure.acquire("settlement", { waitMs }).then(
        () => expect.unreachable(),
        (error: AcquireTimeoutError) => error,
      );
    const own = Promise.all([5_000, 5_000, 0].map((waitMs) => refused(one.tenure, waitMs)));
    const other = refused(namesake.tenure, 5_000);
    await clock.advance(5_000);
    for (const error of await own) {
      expect(error).toMatchObject({ code: "ACQUIRE_TIMEOUT", heldBy: "one" });
      expect(error.message).toMatch(
        /\(held by one, this very Tenure\)\. Leases are not reentrant: .*currentLease\(\)/,
      );
    }
    expect((await other).message).toMatch(/\(held by one, which is this Tenure's own holderId\)/);
    await lease.release();
    // A lease held in the past does not identify the present holder.
    await (await join("two")).tenure.acquire("settlement");
    expect((await refused(one.tenure, 0)).message).toMatch(/\(held by two\)\. Wait longer/);
  });

  test("a signal that is not an AbortSignal is rejected before any request", async () => {
    const { join } = makeWorld();
    const { tenure, store } = await join("one");
    const given: [unknown, string][] = [
      ["x", "x"],
      [null, "null"],
      [new AbortController(), "an AbortController"],
    ];
    for (const [signal, shown] of given) {
      const message = `\`signal\` must be an AbortSignal, such as \`controller.signal\` of an AbortController, got ${shown}.`;
      await expect(tenure.acquire("a", { signal } as never)).rejects.toThrow(message);
      await expect(tenure.watch("", { signal } as never).next()).rejects.toThrow(message);
      const election = tenure.election("e", { lead: () => undefined });
      expect(() => election.observe({ signal } as never)).toThrow(message);
    }
    expect(store.calls.grant).toBe(0);
  });

  test("a wait that ends while the store is down rejects with StoreUnavailableError", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    store.hookAll(down);
    const waiting = tenure.acquire("ledger", { waitMs: 3_000 }).catch((error: unknown) => error);
    await clock.advance(3_000);
    expect(await waiting).toBeInstanceOf(StoreUnavailableError);
  });

  test("an abort while waiting rejects with its reason and leaves no queue entry", async () => {
    const { backend, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const held = await one.tenure.acquire("settlement");
    const controller = new AbortController();
    const waiting = two.tenure.acquire("settlement", { signal: controller.signal });
    await flush();
    expect(backend.entries.get("settlement")?.queue).toHaveLength(1);
    const reason = new Error("the user left");
    controller.abort(reason);
    expect(await outcome(waiting)).toEqual({ error: reason });
    expect(backend.entries.get("settlement")?.queue).toEqual([]);
    await held.release();
    expect((await one.tenure.tryAcquire("settlement"))?.token).toBe(2n);
  });

  test("an abort in the local queue, or in a pause between tries, also ends the wait", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    await tenure.acquire("settlement");
    void tenure.acquire("settlement", { waitMs: 1_000 }).catch(() => undefined);
    await flush();
    const controller = new AbortController();
    const inLine = tenure.acquire("settlement", { signal: controller.signal });
    store.hooks.grant = down;
    const inPause = tenure.acquire("ledger", { signal: controller.signal });
    await flush();
    controller.abort("enough");
    expect(await outcome(inLine)).toEqual({ error: "enough" });
    expect(await outcome(inPause)).toEqual({ error: "enough" });
    await clock.advance(1_000);
  });

  test("a signal that has already aborted causes no request", async () => {
    const { join } = makeWorld();
    const { tenure, store } = await join("one");
    const waiting = tenure.acquire("settlement", { signal: AbortSignal.abort("too late") });
    expect(await outcome(waiting)).toEqual({ error: "too late" });
    expect(store.calls).toMatchObject({ openSession: 0, grant: 0 });
  });

  test("an abort during the request rejects with its reason, and the grant is withdrawn", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const answered = new Gate();
    store.hooks.grant = (_, forward) =>
      forward().then((answer) => answered.opened.then(() => answer));
    const controller = new AbortController();
    const acquiring = tenure.acquire("settlement", { signal: controller.signal });
    await flush();
    controller.abort("enough");
    answered.open();
    await clock.advance(100);
    expect(await outcome(acquiring)).toEqual({ error: "enough" });
    expect((await tenure.read("settlement")).holder).toBeUndefined();
  });

  test("no wait begins with a session that ended while the store answered", async () => {
    const { clock, join } = makeWorld();
    await (await join("one")).tenure.acquire("settlement");
    const two = await join("two");
    const answered = new Gate();
    two.store.hooks.grant = (_, forward) =>
      forward().then((answer) => answered.opened.then(() => answer));
    const waiting = two.tenure.acquire("settlement", { waitMs: 60_000 }).catch(() => undefined);
    await flush();
    clock.jump();
    two.store.hookAll(hang);
    answered.open();
    await flush();
    // The acquisition has moved on: it withdraws.
    expect(two.store.calls).toMatchObject({ grant: 1, withdraw: 1 });
    const closed = two.tenure.close();
    await clock.advance(TIMING.ttlMs);
    expect(await outcome(closed)).toEqual({ value: undefined });
    await waiting;
  });

  test("an acquisition that gives up leaves no listener on the signal and no timer", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    await one.tenure.acquire("settlement");
    const listeners = new Set<unknown>();
    const { signal } = new AbortController();
    const add = signal.addEventListener.bind(signal);
    const remove = signal.removeEventListener.bind(signal);
    signal.addEventListener = ((type: string, listener: () => void) => {
      listeners.add(listener);
      add(type, listener);
    }) as typeof signal.addEventListener;
    signal.removeEventListener = ((type: string, listener: () => void) => {
      listeners.delete(listener);
      remove(type, listener);
    }) as typeof signal.removeEventListener;
    const waiting = two.tenure.acquire("settlement", { signal, waitMs: 1_000 });
    await flush();
    expect(listeners.size).toBeGreaterThan(0);
    await clock.advance(1_000);
    expect(await outcome(waiting)).toMatchObject({ error: { code: "ACQUIRE_TIMEOUT" } });
    expect(listeners.size).toBe(0);
  });
});

describe("many waiters in one process", () => {
  test("a hundred are served in order, with one request each", async () => {
    const { join } = makeWorld();
    const { tenure, store } = await join("one");
    const order: number[] = [];
    const held = await tenure.acquire("settlement");
    const waits = Array.from({ length: 100 }, (_, place) =>
      tenure.withLease("settlement", { waitMs: 60_000 }, () => void order.push(place)),
    );
    await flush();
    expect(store.calls.grant).toBe(101);
    await held.release();
    await Promise.all(waits);
    expect(order).toEqual(Array.from({ length: 100 }, (_, place) => place));
    expect(store.calls).toMatchObject({ grant: 101, openSession: 1, withdraw: 0 });
  });

  test("a hundred waiters on a hundred resources cause no leak warning of Node", async () => {
    const { join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const warnings: Error[] = [];
    const listen = (warning: Error): void => void warnings.push(warning);
    process.on("warning", listen);
    const leases: Lease[] = [];
    for (let row = 0; row < 100; row += 1) leases.push(await one.tenure.acquire(`row/${row}`));
    const waits = leases.map(({ resource }) => two.tenure.acquire(resource));
    await flush();
    for (const lease of leases) await lease.release();
    await Promise.all(waits);
    // Node emits a warning in the next turn of its loop.
    await new Promise((resolve) => setImmediate(resolve));
    process.off("warning", listen);
    expect(warnings.map((warning) => warning.message)).toEqual([]);
  });
});

describe("tryAcquire", () => {
  test("a busy resource gives undefined, without an error or a queue entry", async () => {
    const { backend, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const held = await one.tenure.acquire("settlement");
    expect(await two.tenure.tryAcquire("settlement")).toBeUndefined();
    expect(await one.tenure.tryAcquire("settlement")).toBeUndefined();
    expect(backend.entries.get("settlement")?.queue).toEqual([]);
    await held.release();
    expect((await two.tenure.tryAcquire("settlement"))?.token).toBe(2n);
  });

  test("it does not overtake a caller of this process that already waits", async () => {
    const { join } = makeWorld();
    const { tenure } = await join("one");
    const held = await tenure.acquire("settlement");
    const waiting = tenure.acquire("settlement");
    await flush();
    expect(await tenure.tryAcquire("settlement")).toBeUndefined();
    await held.release();
    expect((await waiting).token).toBe(2n);
  });

  test.each(["openSession", "grant"] as const)(
    "S7: a store whose %s fails is StoreUnavailableError after two tries, never undefined",
    async (method) => {
      const { clock, join } = makeWorld();
      const { tenure, store } = await join("one");
      store.hooks[method] = down;
      const trying = tenure.tryAcquire("settlement").catch((error: unknown) => error);
      await clock.advance(RENEW_EVERY_MS);
      expect(await trying).toBeInstanceOf(StoreUnavailableError);
      expect(store.calls[method]).toBe(2);
    },
  );

  test("an error that is not retryable is thrown immediately", async () => {
    const { join } = makeWorld();
    const { tenure, store } = await join("one");
    const broken = new StoreUnusableError("the file is damaged");
    store.hooks.grant = () => Promise.reject(broken);
    expect(await outcome(tenure.acquire("settlement"))).toEqual({ error: broken });
    expect(store.calls.grant).toBe(1);
  });
});
