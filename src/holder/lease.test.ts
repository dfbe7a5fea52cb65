// Goal: a lease allows what it promises, and nothing from its deadline on. Method: whole lives of
// leases on a manual clock and the memory store; `stall` lets time pass without running timers, as
// for a stopped process.
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
} from "../../test/support/holder/holder-world.ts";
import { LeaseInDoubtError, LeaseLostError } from "../core/errors.ts";
import { currentLease } from "./context.ts";

describe("the life of a lease", () => {
  test("S1: acquire, check, renew and release work, and the next grant has a larger token", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const lease = await tenure.acquire("settlement", { value: { port: 9_000 } });
    expect(lease).toMatchObject({ resource: "settlement", token: 1n });
    expect(lease.check()).toBe(1n);
    await clock.advance(60_000);
    expect(lease.check()).toBe(1n);
    expect((await tenure.read("settlement")).holder).toMatchObject({
      holderId: "one",
      token: 1n,
      value: { port: 9_000 },
    });
    expect(await lease.release()).toBe("released");
    expect((await tenure.read("settlement")).holder).toBeUndefined();
    expect(store.calls).toMatchObject({ openSession: 1, grant: 1, release: 1 });
    expect((await tenure.acquire("settlement")).token).toBe(2n);
  });

  test("`await using` releases a lease at the end of its block", async () => {
    const { join } = makeWorld();
    const { tenure } = await join("one");
    const lease = await tenure.acquire("settlement");
    await lease[Symbol.asyncDispose]();
    expect(() => lease.check()).toThrow(LeaseLostError);
    expect((await tenure.read("settlement")).holder).toBeUndefined();
  });

  test("after the release check() throws LeaseLostError, and the signal has aborted with it", async () => {
    const { join } = makeWorld();
    const { tenure } = await join("one");
    const lease = await tenure.acquire("settlement");
    const { signal } = lease;
    await lease.release();
    expect(() => lease.check()).toThrow(/is lost: released by its holder/);
    expect(signal.reason).toMatchObject({ code: "LEASE_LOST", reason: "released", token: 1n });
  });
});

describe("safeUntil", () => {
  test("S6: check() throws exactly from safeUntil on without a timer, and then the signal is aborted", async () => {
    const { clock, join } = makeWorld();
    const { tenure } = await join("one");
    const startedAt = clock.now();
    const lease = await tenure.acquire("settlement");
    const { signal } = lease;
    expect(lease.safeUntil).toBe(startedAt + SAFE_MS);
    clock.stall(SAFE_MS - 0.001);
    expect(lease.check()).toBe(1n);
    clock.stall(0.001);
    expect(clock.now()).toBe(lease.safeUntil);
    // No timer and no promise has run, so only check() itself can detect it.
    expect(signal.aborted).toBe(false);
    expect(() => lease.check()).toThrow(LeaseLostError);
    expect(signal.reason).toMatchObject({ code: "LEASE_LOST", reason: "expired" });
  });

  test("a signal that is first read after the end is already aborted", async () => {
    const { clock, join } = makeWorld();
    const { tenure } = await join("one");
    const lease = await tenure.acquire("settlement");
    clock.stall(SAFE_MS);
    expect(lease.signal.aborted).toBe(true);
    expect(lease.signal.reason).toBeInstanceOf(LeaseLostError);
  });

  test("S3: the signal aborts at safeUntil without a check(), while the resource is still busy", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const other = await join("two");
    const lease = await tenure.acquire("settlement");
    const { signal } = lease;
    store.hooks.renew = hang;
    await clock.advance(SAFE_MS - 1);
    expect(signal.aborted).toBe(false);
    await clock.advance(1);
    expect(signal.reason).toMatchObject({ reason: "expired" });
    expect(await other.tenure.tryAcquire("settlement")).toBeUndefined();
  });

  test("S3: the deadline counts from when the request was sent, however late its answer comes", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const startedAt = clock.now();
    store.hooks.openSession = async (_, forward) => {
      const answer = await forward();
      clock.stall(700);
      return answer;
    };
    const lease = await tenure.acquire("settlement");
    expect(clock.now()).toBe(startedAt + 700);
    expect(lease.safeUntil).toBe(startedAt + SAFE_MS);
  });

  test("a lost lease always throws the same error", async () => {
    const { clock, join } = makeWorld();
    const { tenure } = await join("one");
    const lease = await tenure.acquire("settlement");
    const { signal } = lease;
    clock.stall(SAFE_MS);
    const error = await outcome(lease.run(() => 1));
    expect(error).toEqual({ error: signal.reason });
    expect(await outcome(lease.confirmed())).toEqual({ error: signal.reason });
    expect(() => lease.check()).toThrow(signal.reason as LeaseLostError);
  });
});

describe("run", () => {
  test("the result or error of the work is returned unchanged, synchronous or not", async () => {
    const { join } = makeWorld();
    const { tenure } = await join("one");
    const lease = await tenure.acquire("settlement");
    const result = { rows: 3 };
    expect(await lease.run(() => result)).toBe(result);
    expect(await lease.run(async (given) => given)).toBe(lease);
    const error = new Error("no such table");
    await expect(lease.run(() => Promise.reject(error))).rejects.toBe(error);
    const thrower = (): never => {
      throw error;
    };
    await expect(lease.run(thrower)).rejects.toBe(error);
    // Failed work has settled, so the release does not wait.
    expect(await lease.release()).toBe("released");
  });

  test("S6: no work starts after safeUntil", async () => {
    const { clock, join } = makeWorld();
    const { tenure } = await join("one");
    const lease = await tenure.acquire("settlement");
    clock.stall(SAFE_MS);
    let started = 0;
    await expect(lease.run(() => ++started)).rejects.toMatchObject({ code: "LEASE_LOST" });
    expect(started).toBe(0);
  });

  test("S6: no work starts in doubt", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const lease = await tenure.acquire("settlement");
    store.hooks.renew = down;
    await clock.advance(RENEW_EVERY_MS);
    let started = 0;
    await expect(lease.run(() => ++started)).rejects.toBeInstanceOf(LeaseInDoubtError);
    expect(started).toBe(0);
  });

  test("S6: no work starts after the release has begun, even while its request is in flight", async () => {
    const { join } = makeWorld();
    const { tenure, store } = await join("one");
    const lease = await tenure.acquire("settlement");
    const gate = new Gate();
    store.hooks.release = (_, forward) => gate.opened.then(forward);
    const released = lease.release();
    let started = 0;
    await expect(lease.run(() => ++started)).rejects.toMatchObject({ code: "LEASE_LOST" });
    expect(started).toBe(0);
    gate.open();
    expect(await released).toBe("released");
  });
});

describe("currentLease", () => {
  test("it is the lease of the innermost run() around the code, and undefined outside", async () => {
    const { join } = makeWorld();
    const { tenure } = await join("one");
    const [outer, inner] = [await tenure.acquire("outer"), await tenure.acquire("inner")];
    expect(currentLease()).toBeUndefined();
    await outer.run(async () => {
      expect(currentLease()).toBe(outer);
      await Promise.resolve();
      await inner.run(async () => {
        await Promise.resolve();
        expect(currentLease()).toBe(inner);
      });
      expect(currentLease()).toBe(outer);
    });
    expect(currentLease()).toBeUndefined();
  });

  test("concurrent work sees its own lease each", async () => {
    const { join } = makeWorld();
    const { tenure } = await join("one");
    const leases = [await tenure.acquire("a"), await tenure.acquire("b")];
    const gate = new Gate();
    const seen = Promise.all(
      leases.map((lease) => lease.run(() => gate.opened.then(() => currentLease()))),
    );
    await flush();
    expect(currentLease()).toBeUndefined();
    gate.open();
    expect(await seen).toEqual(leases);
  });
});
