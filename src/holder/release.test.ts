// Goal: release() never rejects, never hides a result and never affects a successor, and the
// resource is free as soon as the store can be reached. Method: a store that loses requests,
// answers, or both.
import { describe, expect, test } from "vitest";
import {
  down,
  flush,
  Gate,
  hang,
  loseReply,
  makeWorld,
  outcome,
  RENEW_EVERY_MS,
  SAFE_MS,
} from "../../test/support/holder/holder-world.ts";
import { LeaseLostError, StoreUnavailableError } from "../core/errors.ts";

describe("release", () => {
  test("a second call returns the same result, with one request in total", async () => {
    const { join } = makeWorld();
    const { tenure, store } = await join("one");
    const lease = await tenure.acquire("settlement");
    const answers = await Promise.all([lease.release(), lease.release(), lease.release()]);
    expect(answers).toEqual(["released", "released", "released"]);
    expect(await lease.release({ drainMs: 5 })).toBe("released");
    expect(store.calls.release).toBe(1);
  });

  test("a lost lease returns lost without a request", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const lease = await tenure.acquire("settlement");
    clock.stall(SAFE_MS);
    expect(await lease.release()).toBe("lost");
    expect(store.calls.release).toBe(0);
  });

  test("S5: a release whose answer is lost is repeated and takes effect once", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const lease = await tenure.acquire("settlement");
    store.hooks.release = (_, forward) => {
      store.hooks.release = undefined;
      return loseReply(forward);
    };
    const released = lease.release();
    await clock.advance(1_000);
    expect(await released).toBe("released");
    expect(store.calls.release).toBe(2);
  });

  test("S5: the repeated release does not affect a successor", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const lease = await one.tenure.acquire("settlement");
    one.store.hooks.release = (_, forward) => {
      one.store.hooks.release = undefined;
      return loseReply(forward);
    };
    const released = lease.release();
    await flush();
    const successor = await two.tenure.acquire("settlement");
    await clock.advance(1_000);
    expect(await released).toBe("released");
    expect((await two.tenure.read("settlement")).holder?.token).toBe(successor.token);
    expect(successor.check()).toBe(2n);
  });

  // A next lease on the resource does not prove that the previous one was revoked.
  test("a release whose answer is late returns released, even if the holder has the next lease by then", async () => {
    const { join } = makeWorld();
    const { tenure, store } = await join("one");
    const lease = await tenure.acquire("settlement");
    const answered = new Gate();
    store.hooks.release = (_, forward) =>
      forward().then((answer) => answered.opened.then(() => answer));
    const released = lease.release();
    await flush();
    const next = await tenure.acquire("settlement");
    answered.open();
    expect(await released).toBe("released");
    expect(lease.signal.reason).toMatchObject({ reason: "released" });
    expect(next.check()).toBe(2n);
  });

  test("a store that stays down gives unconfirmed within a bounded time", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const lease = await tenure.acquire("settlement");
    store.hooks.release = hang;
    const released = lease.release();
    await clock.advance(3 * (900 + 50) + 500);
    expect(await outcome(released)).toEqual({ value: "unconfirmed" });
    expect(store.calls.release).toBe(3);
  });

  test("the next renewal repeats an unconfirmed release", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const lease = await one.tenure.acquire("settlement");
    const kept = await one.tenure.acquire("ledger");
    one.store.hooks.release = down;
    const released = lease.release();
    await clock.advance(500);
    expect(await released).toBe("unconfirmed");
    expect(await two.tenure.tryAcquire("settlement")).toBeUndefined();
    await clock.advance(RENEW_EVERY_MS);
    expect((await two.tenure.tryAcquire("settlement"))?.token).toBe(2n);
    expect(kept.check()).toBe(1n);
  });

  test("S5: renewals that repeat an old withdrawal do not affect the holder's next lease", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const lease = await tenure.acquire("settlement");
    await tenure.acquire("ledger");
    store.hooks.release = down;
    const released = lease.release();
    await clock.advance(500);
    expect(await released).toBe("unconfirmed");
    await clock.advance(RENEW_EVERY_MS);
    const next = await tenure.acquire("settlement");
    await clock.advance(5 * RENEW_EVERY_MS);
    expect(next.check()).toBe(2n);
    expect((await tenure.read("settlement")).holder?.token).toBe(2n);
  });

  test("after an unconfirmed release of the last lease, the end of the session frees the resource", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const lease = await one.tenure.acquire("settlement");
    one.store.hooks.release = down;
    const released = lease.release();
    await clock.advance(RENEW_EVERY_MS);
    expect(await released).toBe("unconfirmed");
    expect(one.store.calls.endSession).toBe(1);
    expect((await two.tenure.tryAcquire("settlement"))?.token).toBe(2n);
  });

  test("a lease that expires while its release is in flight returns lost", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const lease = await tenure.acquire("settlement");
    await clock.advance(RENEW_EVERY_MS - 1);
    store.hooks.renew = hang;
    store.hooks.release = hang;
    clock.stall(SAFE_MS - RENEW_EVERY_MS);
    const released = lease.release();
    await clock.advance(60_000);
    expect(await released).toBe("lost");
    expect(clock.timers).toBe(0);
  });
});

describe("withLease", () => {
  test("it returns the result of the work and releases the lease", async () => {
    const { join } = makeWorld();
    const { tenure } = await join("one");
    expect(await tenure.withLease("settlement", (lease) => lease.check())).toBe(1n);
    expect(await tenure.withLease("settlement", { waitMs: 5 }, async (lease) => lease.token)).toBe(
      2n,
    );
    expect((await tenure.read("settlement")).holder).toBeUndefined();
  });

  test("it throws the error of the work, even if the release fails", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    store.hooks.release = down;
    const error = new Error("no such table");
    const failed = tenure
      .withLease("ledger", () => Promise.reject(error))
      .catch((cause: unknown) => cause);
    await clock.advance(1_000);
    expect(await failed).toBe(error);
  });

  test("it returns the result if the release fails, and if the lease was lost during the work", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    store.hooks.release = down;
    const unconfirmed = tenure.withLease("settlement", () => "first");
    await clock.advance(1_000);
    expect(await unconfirmed).toBe("first");
    const gate = new Gate();
    const lost = tenure.withLease("ledger", async (lease) => {
      await gate.opened;
      expect(() => lease.check()).toThrow(LeaseLostError);
      return "second";
    });
    await flush();
    clock.jump();
    gate.open();
    expect(await lost).toBe("second");
  });

  test("without a function as its last argument it is rejected and acquires nothing", async () => {
    const { join } = makeWorld();
    const { tenure, store } = await join("one");
    const missing = tenure.withLease("settlement", {}, undefined as never);
    await expect(missing).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    expect(store.calls.openSession).toBe(0);
  });

  test("if the acquisition fails, it throws that error and does not start the work", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    store.hookAll(down);
    let started = 0;
    const failed = tenure
      .withLease("settlement", { waitMs: 2_000 }, () => ++started)
      .catch((cause: unknown) => cause);
    await clock.advance(2_000);
    expect(await failed).toBeInstanceOf(StoreUnavailableError);
    expect(started).toBe(0);
  });
});
