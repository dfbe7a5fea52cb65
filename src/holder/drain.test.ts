// Goal: S6 at the end of a lease: it accepts no new work, waits for work in flight, and sends the
// release only after that or not at all. Method: work that waits at gates, a manual clock, and a
// count of the requests.
import { describe, expect, test } from "vitest";
import {
  flush,
  Gate,
  hang,
  makeWorld,
  outcome,
  RENEW_EVERY_MS,
  SAFE_MS,
} from "../../test/support/holder/holder-world.ts";
import { DrainingError, LeaseLostError } from "../core/errors.ts";
import type { Lease } from "./lease.ts";

/** Starts work under the lease that runs until the gate opens and ignores its signal. */
function hangingWork(lease: Lease): { gate: Gate; done: Promise<string> } {
  const gate = new Gate();
  return { gate, done: lease.run(() => gate.opened.then(() => "work done")) };
}

describe("drain", () => {
  test("S6: the release is sent only after the work in flight has settled", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const lease = await tenure.acquire("settlement");
    const [first, second] = [hangingWork(lease), hangingWork(lease)];
    const released = lease.release();
    await clock.advance(60_000);
    first.gate.open();
    await clock.advance(1_000);
    expect(await outcome(released)).toBe("pending");
    expect(store.calls.release).toBe(0);
    expect((await tenure.read("settlement")).holder?.token).toBe(1n);
    second.gate.open();
    expect(await released).toBe("released");
    expect(await second.done).toBe("work done");
    expect(store.calls.release).toBe(1);
    expect((await tenure.read("settlement")).holder).toBeUndefined();
  });

  test("S6: no work starts while draining, and work in flight may continue to act", async () => {
    const { join } = makeWorld();
    const { tenure } = await join("one");
    const lease = await tenure.acquire("settlement");
    const gate = new Gate();
    const work = lease.run(async () => {
      await gate.opened;
      return lease.check();
    });
    const released = lease.release();
    let started = 0;
    await expect(lease.run(() => ++started)).rejects.toBeInstanceOf(DrainingError);
    expect(started).toBe(0);
    expect(lease.signal.aborted).toBe(false);
    gate.open();
    expect(await work).toBe(1n);
    expect(await released).toBe("released");
  });

  test("a lease whose work stops within the drain is released", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const lease = await tenure.acquire("settlement");
    const work = lease.run(
      () =>
        new Promise((resolve) => {
          lease.signal.addEventListener("abort", () => resolve("stopped"));
        }),
    );
    const released = lease.release({ drainMs: 500 });
    await clock.advance(499);
    expect(store.calls.release).toBe(0);
    await clock.advance(1);
    expect(await work).toBe("stopped");
    expect(await released).toBe("released");
    expect(lease.signal.reason).toMatchObject({ reason: "released" });
    expect(() => lease.check()).toThrow(/its work outlived the drain/);
  });

  test("a limit given by a later call of release() counts from that call", async () => {
    const { clock, join } = makeWorld();
    const { tenure } = await join("one");
    const lease = await tenure.acquire("settlement");
    const { signal } = lease;
    const work = hangingWork(lease);
    const first = lease.release();
    await clock.advance(10_000);
    const second = lease.release({ drainMs: 200 });
    await clock.advance(199);
    expect(signal.aborted).toBe(false);
    await clock.advance(1);
    expect(signal.aborted).toBe(true);
    work.gate.open();
    expect(await Promise.all([first, second])).toEqual(["released", "released"]);
  });
});

describe("work that outlives the drain", () => {
  test("S6: its signal aborts, the result is overrun, and the release is sent only after it has settled", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const lease = await tenure.acquire("settlement");
    const work = hangingWork(lease);
    const released = lease.release({ drainMs: 1_000 });
    await clock.advance(1_000);
    expect(lease.signal.reason).toMatchObject({ reason: "released" });
    expect(() => lease.check()).toThrow(LeaseLostError);
    // It has until the deadline that was known at that time to stop.
    await clock.advance(SAFE_MS - 1_000 - 1);
    expect(await outcome(released)).toBe("pending");
    await clock.advance(1);
    expect(await released).toBe("overrun");
    await clock.advance(60_000);
    expect(store.calls.release).toBe(0);
    work.gate.open();
    expect(await work.done).toBe("work done");
    await flush();
    expect(store.calls.release).toBe(1);
    expect((await tenure.read("settlement")).holder).toBeUndefined();
  });

  test("S6: the resource stays busy while the overrun work runs and renewals succeed", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const lease = await one.tenure.acquire("settlement");
    const work = hangingWork(lease);
    const released = lease.release({ drainMs: 0 });
    await clock.advance(60_000);
    expect(await released).toBe("overrun");
    expect(await two.tenure.tryAcquire("settlement")).toBeUndefined();
    work.gate.open();
    await flush();
    expect((await two.tenure.tryAcquire("settlement"))?.token).toBe(2n);
  });

  test("a loss after the overrun does not change the reason of the signal", async () => {
    const { clock, join } = makeWorld();
    const { tenure } = await join("one");
    const lease = await tenure.acquire("settlement");
    hangingWork(lease);
    const released = lease.release({ drainMs: 100 });
    await clock.advance(200);
    // The signal and the error are read for the first time here.
    clock.jump();
    expect(lease.signal.reason).toMatchObject({ reason: "released" });
    expect(() => lease.check()).toThrow(/its work outlived the drain/);
    expect(await released).toBe("lost");
  });

  test("a lease whose work settles after its signal and before the deadline is released", async () => {
    const { clock, join } = makeWorld();
    const { tenure } = await join("one");
    const lease = await tenure.acquire("settlement");
    const work = hangingWork(lease);
    const released = lease.release({ drainMs: 100 });
    await clock.advance(2_000);
    work.gate.open();
    expect(await released).toBe("released");
    await clock.advance(RENEW_EVERY_MS);
    expect(clock.timers).toBe(0);
  });
});

describe("work that outlives safeUntil", () => {
  test("S6: the lease is lost and never released, neither during the work nor after it", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const lease = await tenure.acquire("settlement");
    const work = hangingWork(lease);
    const released = lease.release();
    store.hooks.renew = hang;
    await clock.advance(SAFE_MS);
    expect(lease.signal.reason).toMatchObject({ reason: "expired" });
    expect(await released).toBe("lost");
    await clock.advance(60_000);
    work.gate.open();
    // The loss does not hide the result of the work.
    expect(await work.done).toBe("work done");
    await clock.advance(1_000);
    expect(store.calls.release).toBe(0);
  });

  test("S6: the lease is not released either if the work had outlived its drain", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const lease = await tenure.acquire("settlement");
    const work = hangingWork(lease);
    const released = lease.release({ drainMs: 1_000 });
    await clock.advance(1_000);
    store.hooks.renew = hang;
    await clock.advance(60_000);
    expect(await released).toMatch(/lost|overrun/);
    work.gate.open();
    await work.done;
    await clock.advance(1_000);
    expect(store.calls.release).toBe(0);
    expect(clock.timers).toBe(0);
  });

  test("S6: a lease lost with work in flight and without a drain is not released either", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const lease = await tenure.acquire("settlement");
    const work = hangingWork(lease);
    clock.stall(SAFE_MS);
    expect(await lease.release()).toBe("lost");
    work.gate.open();
    await work.done;
    await clock.advance(1_000);
    expect(store.calls.release).toBe(0);
  });
});

describe("release() from inside the work", () => {
  test("is rejected, because it would wait for itself, and the lease continues", async () => {
    const { join } = makeWorld();
    const { tenure } = await join("one");
    const lease = await tenure.acquire("settlement");
    const refused = lease.run(() => lease.release());
    await expect(refused).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    await expect(refused).rejects.toThrow(/Return from the work instead, or give drainMs/);
    expect(lease.check()).toBe(1n);
    expect(await lease.release()).toBe("released");
  });

  test("is allowed for another lease, and with drainMs", async () => {
    const { clock, join } = makeWorld();
    const { tenure } = await join("one");
    const [lease, other] = [await tenure.acquire("a"), await tenure.acquire("b")];
    expect(await lease.run(() => other.release())).toBe("released");
    const released = lease.run(() => lease.release({ drainMs: 100 }));
    await clock.advance(SAFE_MS);
    expect(await released).toBe("overrun");
  });

  test("is allowed in a callback that outlives its work", async () => {
    const { join } = makeWorld();
    const { tenure } = await join("one");
    const lease = await tenure.acquire("settlement");
    const later = new Gate();
    let released: Promise<unknown> | undefined;
    await lease.run(() => {
      released = later.opened.then(() => lease.release());
    });
    later.open();
    expect(await outcome(released ?? Promise.resolve())).toEqual({ value: "released" });
  });
});

describe("an invalid drainMs", () => {
  test.each([Number.NaN, -1, "1s"])(
    "drainMs %s is rejected, and the lease continues",
    async (drainMs) => {
      const { join } = makeWorld();
      const { tenure } = await join("one");
      const lease = await tenure.acquire("settlement");
      const options = { drainMs: drainMs as number };
      await expect(lease.release(options)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
      await expect(tenure.close(options)).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
      expect(lease.check()).toBe(1n);
      await tenure.close();
    },
  );
});
