// Goal: reading, listing, watching, revoking and handing over report the state of the store, and
// the options of a call reach it. Method: two processes on one memory backend and one manual clock.
import { describe, expect, test } from "vitest";
import {
  flush,
  hang,
  makeWorld,
  outcome,
  RENEW_EVERY_MS,
} from "../../test/support/holder/holder-world.ts";
import { InvalidArgumentError, StoreUnavailableError } from "../core/errors.ts";
import type { LeaseView } from "../stores/contract.ts";

describe("read", () => {
  test("it returns holder, token, value and remaining time, with its evidence", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    expect(await two.tenure.read("settlement")).toMatchObject({
      resource: "settlement",
      holder: undefined,
      evidence: { consistency: "linearizable" },
    });
    await one.tenure.acquire("settlement", { value: ["10.0.0.7", 9_000] });
    await clock.advance(1_000);
    const answer = await two.tenure.read("settlement", { consistency: "stale" });
    expect(answer.holder).toMatchObject({ holderId: "one", token: 1n, value: ["10.0.0.7", 9_000] });
    expect(answer.holder?.expiresInMs).toBe(8_000);
    expect(answer.evidence.consistency).toBe("stale");
  });

  test("an unknown consistency is rejected, and a store that does not answer is unavailable", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const odd = tenure.read("settlement", { consistency: "eventual" as "stale" });
    await expect(odd).rejects.toBeInstanceOf(InvalidArgumentError);
    store.hooks.read = hang;
    const reading = tenure.read("settlement").catch((error: unknown) => error);
    await clock.advance(5_050);
    expect(await reading).toBeInstanceOf(StoreUnavailableError);
  });
});

describe("list", () => {
  test("it lists the held leases with the prefix in order, over several pages", async () => {
    const { join } = makeWorld();
    const { tenure, store } = await join("one");
    const names = Array.from({ length: 1_200 }, (_, row) => `row/${String(row).padStart(4, "0")}`);
    await Promise.all(names.map((name) => tenure.acquire(name)));
    await tenure.acquire("other");
    const listed: string[] = [];
    for await (const view of tenure.list("row/")) listed.push(view.resource);
    expect(listed).toEqual(names);
    expect(store.calls.list).toBe(3);
    const all: string[] = [];
    for await (const view of tenure.list()) all.push(view.resource);
    expect(all).toHaveLength(1_201);
  });

  test("an invalid prefix is rejected", async () => {
    const { join } = makeWorld();
    const { tenure } = await join("one");
    await expect(tenure.list("a\0").next()).rejects.toBeInstanceOf(InvalidArgumentError);
    await expect(tenure.watch("\ud800").next()).rejects.toBeInstanceOf(InvalidArgumentError);
  });
});

describe("watch", () => {
  test("it yields the held leases, then every change, until the signal aborts", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const first = await one.tenure.acquire("a/1");
    const seen: [string, bigint | undefined][] = [];
    const controller = new AbortController();
    const watching = (async () => {
      for await (const view of two.tenure.watch("a/", { signal: controller.signal })) {
        seen.push([view.resource, view.holder?.token]);
      }
    })();
    await flush();
    await first.release();
    await flush();
    await one.tenure.acquire("a/1");
    await one.tenure.acquire("b/1");
    await flush();
    one.store.hookAll(hang);
    await clock.advance(9_000);
    controller.abort();
    await watching;
    expect(seen).toEqual([
      ["a/1", 1n],
      ["a/1", undefined],
      ["a/1", 2n],
      ["a/1", undefined],
    ]);
    await one.tenure.close();
  });

  test("it ends with its signal even if the store does not answer", async () => {
    const { join } = makeWorld();
    const { tenure, store } = await join("one");
    store.watch = deaf;
    const controller = new AbortController();
    const next = tenure.watch("", { signal: controller.signal }).next();
    expect(await outcome(next)).toBe("pending");
    controller.abort();
    expect(await outcome(next)).toEqual({ value: { done: true, value: undefined } });
  });

  test("an error of the store is thrown and ends the watch", async () => {
    const { join } = makeWorld();
    const { tenure, store } = await join("one");
    const refusal = new Error("not with me (by the test)");
    store.watch = () => ({
      [Symbol.asyncIterator]: () => ({ next: () => Promise.reject(refusal) }),
    });
    expect(await outcome(tenure.watch("").next())).toEqual({ error: refusal });
  });

  test("leaving the loop also ends the watch of the store", async () => {
    const { join } = makeWorld();
    const { tenure, store } = await join("one");
    let isOver = false;
    store.watch = async function* () {
      try {
        for (;;) yield { resource: "a" };
      } finally {
        isOver = true;
      }
    };
    for await (const view of tenure.watch("")) {
      expect(view).toEqual({ resource: "a" });
      break;
    }
    await flush();
    expect(isOver).toBe(true);
  });

  test("leaving the loop ends it and leaves no timer", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const lease = await one.tenure.acquire("a");
    let view: LeaseView | undefined;
    for await (view of two.tenure.watch("")) break;
    expect(view?.resource).toBe("a");
    await lease.release();
    await clock.advance(RENEW_EVERY_MS);
    expect(clock.timers).toBe(0);
  });
});

describe("revoke", () => {
  test("it returns the former holder and frees the resource; a free resource gives undefined", async () => {
    const { join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    expect(await two.tenure.revoke("settlement")).toBeUndefined();
    await one.tenure.acquire("settlement");
    expect(await two.tenure.revoke("settlement")).toMatchObject({ holderId: "one", token: 1n });
    expect((await two.tenure.acquire("settlement")).token).toBe(2n);
  });

  test("S5: it ends only the lease that it has read, not that of a successor", async () => {
    const { join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const first = await one.tenure.acquire("settlement");
    two.store.hooks.revoke = async (_, forward) => {
      await first.release();
      await one.tenure.acquire("settlement");
      return forward();
    };
    expect(await two.tenure.revoke("settlement")).toBeUndefined();
    expect((await one.tenure.read("settlement")).holder?.token).toBe(2n);
  });
});

describe("handover", () => {
  test("L4: it releases and returns the successor, which acquires immediately", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const lease = await one.tenure.acquire("settlement");
    const waiting = two.tenure.acquire("settlement", { waitMs: 60_000 });
    await clock.advance(1_000);
    const handover = await lease.handover({ waitMs: 5_000 });
    expect(handover).toEqual({
      handedOver: true,
      release: "released",
      successor: { holderId: "two", token: 2n },
      waitedMs: 0,
    });
    expect((await waiting).check()).toBe(2n);
  });

  test("a successor that comes later is returned when it comes", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const lease = await one.tenure.acquire("settlement");
    const handing = lease.handover({ waitMs: 5_000 });
    await clock.advance(1_200);
    // A resource with a longer name does not count.
    await two.tenure.acquire("settlement/2");
    await two.tenure.acquire("settlement");
    expect(await handing).toMatchObject({ successor: { holderId: "two" }, waitedMs: 1_200 });
  });

  test("without a successor it ends after waitMs", async () => {
    const { clock, join } = makeWorld();
    const { tenure } = await join("one");
    const lease = await tenure.acquire("settlement");
    const handing = lease.handover({ waitMs: 5_000 });
    await clock.advance(4_999);
    expect(await outcome(handing)).toBe("pending");
    await clock.advance(1);
    expect(await handing).toEqual({
      handedOver: false,
      release: "released",
      waitedMs: 5_000,
    });
    expect(clock.timers).toBe(0);
  });

  test("L1: it ends after waitMs even if the store does not answer", async () => {
    const { clock, join } = makeWorld();
    const { tenure, store } = await join("one");
    const lease = await tenure.acquire("settlement");
    store.watch = deaf;
    const handing = lease.handover({ waitMs: 1_000 });
    await clock.advance(1_000);
    expect(await outcome(handing)).toEqual({
      value: { handedOver: false, release: "released", waitedMs: 1_000 },
    });
  });

  test.each([-1, Number.NaN, "5", undefined])(
    "a waitMs of %s is rejected, and nothing is released",
    async (waitMs) => {
      const { join } = makeWorld();
      const { tenure } = await join("one");
      const lease = await tenure.acquire("settlement");
      const handing = lease.handover({ waitMs: waitMs as number });
      await expect(handing).rejects.toThrow(
        /`waitMs` must be a number of milliseconds, at least 0/,
      );
      expect(lease.check()).toBe(1n);
    },
  );
});

describe("options", () => {
  test("a ttl given for one lease replaces all default bounds", async () => {
    const { clock, join } = makeWorld();
    const { tenure } = await join("one", { ttlMs: 9_000, clockErrorMs: 100, roundTripMs: 900 });
    const lease = await tenure.acquire("settlement", { ttlMs: 60_000 });
    // The default bounds for 60 s: 1 % for the clocks and one second for the round trip.
    expect(lease.safeUntil).toBe(clock.now() + 60_000 - 1_600);
  });

  test("a single bound given for one lease is combined with the defaults", async () => {
    const { clock, join } = makeWorld();
    const { tenure } = await join("one", { ttlMs: 9_000, clockErrorMs: 100, roundTripMs: 900 });
    const lease = await tenure.acquire("settlement", { marginMs: 1_500 });
    expect(lease.safeUntil).toBe(clock.now() + 9_000 - 1_500);
  });

  test("contradictory numbers are rejected when the Tenure is created", async () => {
    const { join } = makeWorld();
    await expect(join("one", { ttlMs: 9_000, renewEveryMs: 8_000 })).rejects.toMatchObject({
      code: "TIMING",
    });
    await expect(join("")).rejects.toBeInstanceOf(InvalidArgumentError);
  });

  test("the guarantees of the store can be read", async () => {
    const { join } = makeWorld();
    const { tenure } = await join("one");
    expect(tenure.guarantees).toMatchObject({ store: "memory", fifo: true, durable: false });
  });
});

/** A watch that never answers and ignores its signal. */
function deaf(): AsyncIterable<LeaseView> {
  return { [Symbol.asyncIterator]: () => ({ next: () => hang() }) };
}
