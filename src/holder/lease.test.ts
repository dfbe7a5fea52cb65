// Goal: what a caller may do with a lease, and from which instant it may not. Method: the whole walk on a manual clock
// and the memory store; `stall` lets time pass without any timer running, as a stopped process would see it.
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

describe("the walk", () => {
  test("S1: acquire, check, renew, release; the next grant has a larger token", async () => {
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

  test("a lease is released when its block is left", async () => {
    const { join } = makeWorld();
    const { tenure } = await join("one");
    const lease = await tenure.acquire("settlement");
    await lease[Symbol.asyncDispose]();
    expect(() => lease.check()).toThrow(LeaseLostError);
    expect((await tenure.read("settlement")).holder).toBeUndefined();
  });

  test("after the release check() says so, and the signal has aborted for the same reason", async () => {
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
  test("S6: check() throws exactly from safeUntil on although no timer ran, and the signal is then aborted", async () => {
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
    // No timer and no promise had a chance: only check() itself can notice.
    expect(signal.aborted).toBe(false);
    expect(() => lease.check()).toThrow(LeaseLostError);
    expect(signal.reason).toMatchObject({ code: "LEASE_LOST", reason: "expired" });
  });

  test("a signal that is asked for after the end is aborted from the start", async () => {
    const { clock, join } = makeWorld();
    const { tenure } = await join("one");
    const lease = await tenure.acquire("settlement");
    clock.stall(SAFE_MS);
    expect(lease.signal.aborted).toBe(true);
    expect(lease.signal.reason).toBeInstanceOf(LeaseLostError);
  });

  test("S3: with nobody looking the signal aborts at safeUntil, while the store still keeps others out", async () => {
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

  test("S3: the deadline counts from the sending of the request, however late its answer came", async () => {
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

  test("every refusal of a lost lease is the same error", async () => {
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
  test("the result or the error of the work comes back unchanged, synchronous or not", async () => {
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
    // Failed work is settled work: the release waits for none of it.
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

  test("S6: no work starts in doubt, not even under whoever does not look at the error", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const lease = await tenure.acquire("settlement");
    store.hooks.renew = down;
    await clock.advance(RENEW_EVERY_MS);
    let started = 0;
    await expect(lease.run(() => ++started)).rejects.toBeInstanceOf(LeaseInDoubtError);
    expect(started).toBe(0);
  });

  test("S6: no work starts after the release has begun, also while the store is being told", async () => {
    const { join } = makeWorld();
    const { tenure, store } = await join("one");
    const lease = await tenure.acquire("settlement");
    const told = new Gate();
    store.hooks.release = (_, forward) => told.opened.then(forward);
    const released = lease.release();
    let started = 0;
    await expect(lease.run(() => ++started)).rejects.toMatchObject({ code: "LEASE_LOST" });
    expect(started).toBe(0);
    told.open();
    expect(await released).toBe("released");
  });
});

describe("currentLease", () => {
  test("it is the lease of the innermost run() around the code, and nothing outside", async () => {
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

  test("work that runs at the same time sees its own lease each", async () => {
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
