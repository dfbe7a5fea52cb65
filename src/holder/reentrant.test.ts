// Goal: code that already works under a lease on a resource is not made to wait for itself:
// acquiring it again throws immediately, or returns the same lease with `reentrant: true`. Method:
// nested calls on a memory backend with a manual clock, so that a wait would show as a pending
// promise.
import { describe, expect, test } from "vitest";
import { Gate, makeWorld, outcome } from "../../test/support/holder/holder-world.ts";
import { memoryGuard } from "../guards/memory/index.ts";
import { currentLease } from "./context.ts";

const alreadyHeld = {
  error: expect.objectContaining({
    code: "INVALID_ARGUMENT",
    resource: "a",
    message: expect.stringMatching(/You already hold "a" in this call chain.*reentrant: true/),
  }),
};

describe("without reentrant", () => {
  test("acquire, tryAcquire and withLease throw at once inside run() and withLease()", async () => {
    const { tenure, store } = await makeWorld().join("one");
    const calls = [
      () => tenure.acquire("a"),
      () => tenure.tryAcquire("a"),
      () => tenure.withLease("a", () => expect.unreachable()),
    ];
    for (const call of calls) {
      expect(await tenure.withLease("a", () => outcome(call()))).toEqual(alreadyHeld);
      const lease = await tenure.acquire("a");
      expect(await lease.run(() => outcome(call()))).toEqual(alreadyHeld);
      await lease.release();
    }
    expect(store.calls.grant).toBe(2 * calls.length);
  });

  test("it is noticed through leases on other resources in between", async () => {
    const { tenure } = await makeWorld().join("one");
    const inner = await tenure.withLease("a", () =>
      tenure.withLease("b", () => outcome(tenure.acquire("a"))),
    );
    expect(inner).toEqual(alreadyHeld);
  });

  test("once and oncePer throw as well", async () => {
    const { clock, join } = makeWorld();
    const { tenure } = await join("one");
    const atMs = clock.wallNow();
    await tenure.withLease("a", async () => {
      const refused = { error: expect.objectContaining({ code: "INVALID_ARGUMENT" }) };
      expect(await outcome(tenure.once("a", { atMs }, () => 1))).toEqual(refused);
      expect(await outcome(tenure.oncePer("a", { everyMs: 1_000 }, () => 1))).toEqual(refused);
    });
  });

  test("other resources, another Tenure and code outside of the work are not affected", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    await one.tenure.withLease("a", async () => {
      expect(await one.tenure.tryAcquire("b")).toBeDefined();
      expect(await two.tenure.tryAcquire("a")).toBeUndefined();
    });
    const lease = await one.tenure.acquire("a");
    const waiting = one.tenure.acquire("a", { waitMs: 1_000 });
    await clock.advance(1_000);
    expect(await outcome(waiting)).toMatchObject({ error: { code: "ACQUIRE_TIMEOUT" } });
    await lease.release();
  });

  test("work that lost its lease, and code that outlives its work, may acquire again", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const gate = new Gate();
    let late: Promise<unknown> | undefined;
    await one.tenure.withLease("a", async () => {
      late = gate.opened.then(async () => (await one.tenure.acquire("a")).token);
      await two.tenure.revoke("a");
      await clock.advance(3_000);
      const again = await one.tenure.acquire("a");
      expect(again.token).toBe(2n);
      await again.release();
    });
    gate.open();
    expect(await late).toBe(3n);
  });
});

test("code that outlives its work waits for a lease that is still held elsewhere", async () => {
  const { tenure } = await makeWorld().join("one");
  const gate = new Gate();
  const lease = await tenure.acquire("a");
  let late: Promise<bigint> | undefined;
  await lease.run(() => {
    late = gate.opened.then(async () => (await tenure.acquire("a")).token);
  });
  gate.open();
  expect(await outcome(late as Promise<bigint>)).toBe("pending");
  await lease.release();
  expect(await late).toBe(2n);
});

describe("with reentrant: true", () => {
  test("acquire and tryAcquire return the same lease, and its release changes nothing", async () => {
    const { tenure, store } = await makeWorld().join("one");
    await tenure.withLease("a", async (outer) => {
      const inner = await tenure.acquire("a", { reentrant: true });
      const tried = await tenure.tryAcquire("a", { reentrant: true });
      for (const lease of [inner, tried]) {
        expect(lease?.token).toBe(outer.token);
        expect(lease?.signal).toBe(outer.signal);
        expect(lease?.safeUntil).toBe(outer.safeUntil);
        expect(await lease?.release()).toBe("kept");
        expect(await lease?.handover({ waitMs: 1_000 })).toMatchObject({ handedOver: false });
        expect(lease?.check()).toBe(outer.token);
      }
      await using disposed = await tenure.acquire("a", { reentrant: true });
      await disposed.confirmed();
      expect(outer.check()).toBe(outer.token);
    });
    expect(store.calls).toMatchObject({ grant: 1, release: 1 });
    expect((await tenure.read("a")).holder).toBeUndefined();
  });

  test("withLease runs under the outer lease and does not release it", async () => {
    const { tenure, store } = await makeWorld().join("one");
    await tenure.withLease("a", async (outer) => {
      await tenure.withLease("b", async () => {
        const found = await tenure.withLease("a", { reentrant: true }, () => currentLease());
        expect(found).toBe(outer);
      });
      expect(store.calls.release).toBe(1);
      expect(outer.check()).toBe(outer.token);
    });
    expect(store.calls).toMatchObject({ grant: 2, release: 2 });
  });

  test("it acquires as usual if the calling code holds nothing", async () => {
    const { tenure } = await makeWorld().join("one");
    const lease = await tenure.acquire("a", { reentrant: true });
    expect(await lease.release()).toBe("released");
    expect(await tenure.withLease("a", { reentrant: true }, (held) => held.token)).toBe(2n);
    expect((await tenure.read("a")).holder).toBeUndefined();
  });

  test("work in flight may still reenter while its lease drains", async () => {
    const { tenure } = await makeWorld().join("one");
    const gate = new Gate();
    const working = tenure.withLease("a", async () => {
      await gate.opened;
      return await tenure.withLease("a", { reentrant: true }, (lease) => lease.check());
    });
    await outcome(working);
    const closing = tenure.close();
    gate.open();
    expect(await working).toBe(1n);
    await closing;
  });

  test("guards of the inner call are advanced, and a failure keeps the outer lease", async () => {
    const { tenure } = await makeWorld().join("one");
    const guard = memoryGuard();
    const broken = { advance: () => Promise.reject(new Error("broken")) };
    await tenure.withLease("a", async (outer) => {
      await tenure.acquire("a", { reentrant: true, guards: [guard] });
      expect(guard.highest("a")).toBe(outer.token);
      const failing = tenure.acquire("a", { reentrant: true, guards: [broken] });
      await expect(failing).rejects.toThrow("broken");
      expect(outer.check()).toBe(outer.token);
    });
  });

  test("an invalid value is rejected", async () => {
    const { tenure } = await makeWorld().join("one");
    await expect(tenure.acquire("a", { reentrant: 1 as never })).rejects.toThrow(/`reentrant`/);
  });
});
