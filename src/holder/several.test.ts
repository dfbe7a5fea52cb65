// Goal: acquireAll() takes all resources or none and cannot deadlock; acquireAny() takes exactly
// one; slots limit the number of holders and survive a crash. Method: several processes on one
// memory backend and one manual clock; requests are counted.
import { describe, expect, test } from "vitest";
import {
  flush,
  Gate,
  hang,
  makeWorld,
  outcome,
  TIMING,
} from "../../test/support/holder/holder-world.ts";
import { InvalidArgumentError } from "../core/errors.ts";
import { currentLease } from "./context.ts";

const WAIT = { waitMs: 60_000 };

describe("acquireAll()", () => {
  test("returns the leases in the order of the names, each with its own token", async () => {
    const { join } = makeWorld();
    const { tenure } = await join("one");
    await (await tenure.acquire("b")).release();
    const leases = await tenure.acquireAll(["b", "a", "c"]);
    expect(leases.map(({ resource, token }) => [resource, token])).toEqual([
      ["b", 2n],
      ["a", 1n],
      ["c", 1n],
    ]);
    expect(leases.map((lease) => lease.check())).toEqual([2n, 1n, 1n]);
  });

  test("takes none if one stays busy, and names it", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    await one.tenure.acquire("b");
    const waiting = two.tenure.acquireAll(["a", "b", "c"], { waitMs: 1_000 });
    await clock.advance(1_000);
    expect(await outcome(waiting)).toMatchObject({
      error: { code: "ACQUIRE_TIMEOUT", resource: "b" },
    });
    await flush();
    for (const name of ["a", "c"])
      expect((await one.tenure.read(name)).holder, name).toBeUndefined();
  });

  test("holds no later name while it waits, so calls in opposite order cannot wait for each other", async () => {
    const { join } = makeWorld();
    const [one, two, three] = [await join("one"), await join("two"), await join("three")];
    const held = await three.tenure.acquire("a");
    const first = one.tenure.acquireAll(["b", "a"], WAIT);
    const second = two.tenure.acquireAll(["a", "b"], WAIT);
    await flush();
    expect((await three.tenure.read("b")).holder).toBeUndefined();
    await held.release();
    const use = async (acquiring: typeof first): Promise<void> => {
      for (const lease of await acquiring) await lease.release();
    };
    await Promise.all([use(first), use(second)]);
  });

  test("does not wait longer than waitMs for all together", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const [a] = [await one.tenure.acquire("a"), await one.tenure.acquire("b")];
    const waiting = two.tenure.acquireAll(["a", "b"], { waitMs: 1_000 });
    await clock.advance(900);
    await a.release();
    await clock.advance(99);
    expect(await outcome(waiting)).toBe("pending");
    await clock.advance(1);
    expect(await outcome(waiting)).toMatchObject({ error: { resource: "b" } });
  });

  test("rejects an empty list, a repeated name and a resource of the call chain", async () => {
    const { join } = makeWorld();
    const { tenure } = await join("one");
    await expect(tenure.acquireAll([])).rejects.toThrow("needs a list of at least one resource");
    await expect(tenure.acquireAll(["a", "b", "a"])).rejects.toThrow('the resource "a" twice');
    await expect(tenure.acquireAll("ab" as never)).rejects.toThrow(InvalidArgumentError);
    await tenure.withLease("a", async () => {
      await expect(tenure.acquireAll(["b", "a"])).rejects.toThrow('You already hold "a"');
    });
  });
});

describe("withLeases()", () => {
  test("runs the work under all leases, and releases them after it", async () => {
    const { join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const gate = new Gate();
    const leased = one.tenure.withLeases(["a", "b"], async (leases) => {
      await gate.opened;
      return [leases.length, currentLease()?.resource];
    });
    await flush();
    expect(await two.tenure.tryAcquire("a")).toBeUndefined();
    expect(await two.tenure.tryAcquire("b")).toBeUndefined();
    gate.open();
    expect(await leased).toEqual([2, "b"]);
    await flush();
    expect((await two.tenure.acquireAll(["a", "b"], { waitMs: 0 })).length).toBe(2);
  });
});

describe("acquireAny()", () => {
  test("takes a free resource without queueing for the others", async () => {
    const { join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    await one.tenure.acquire("a");
    expect((await two.tenure.acquireAny(["a", "b"])).resource).toBe("b");
    expect(two.store.calls.withdraw).toBe(0);
  });

  test("waits in all queues, and leaves the others when one grants", async () => {
    const { backend, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const [a, b] = [await one.tenure.acquire("a"), await one.tenure.acquire("b")];
    const waiting = two.tenure.acquireAny(["a", "b"], WAIT);
    await flush();
    const queue = (name: string): number | undefined => backend.entries.get(name)?.queue.length;
    expect([queue("a"), queue("b")]).toEqual([1, 1]);
    await b.release();
    expect((await waiting).resource).toBe("b");
    await flush();
    expect([queue("a"), queue("b")]).toEqual([0, 0]);
    expect(a.check()).toBe(1n);
  });

  test("releases what a second queue granted at the same moment", async () => {
    const { join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    const held = [await one.tenure.acquire("a"), await one.tenure.acquire("b")];
    const waiting = two.tenure.acquireAny(["a", "b"], WAIT);
    await flush();
    await Promise.all(held.map((lease) => lease.release()));
    const { resource } = await waiting;
    await flush();
    const other = resource === "a" ? "b" : "a";
    expect((await one.tenure.tryAcquire(other))?.resource).toBe(other);
  });

  test("ends with the caller's signal, and leaves every queue", async () => {
    const { backend, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    for (const name of ["a", "b"]) await one.tenure.acquire(name);
    const enough = new AbortController();
    const waiting = two.tenure.acquireAny(["a", "b"], { ...WAIT, signal: enough.signal });
    await flush();
    enough.abort("enough");
    expect(await outcome(waiting)).toEqual({ error: "enough" });
    await flush();
    for (const name of ["a", "b"]) expect(backend.entries.get(name)?.queue).toEqual([]);
  });
});

describe("slots", () => {
  test("admit that many holders, and the next caller when one of them releases", async () => {
    const { join } = makeWorld();
    const [one, two, three] = [await join("one"), await join("two"), await join("three")];
    const first = await one.tenure.acquire("gpu", { slots: 2 });
    const second = await two.tenure.acquire("gpu", { slots: 2 });
    expect([first.resource, second.resource].sort()).toEqual(["gpu#1", "gpu#2"]);
    expect(await three.tenure.tryAcquire("gpu", { slots: 2 })).toBeUndefined();
    const third = three.tenure.withLease("gpu", { slots: 2, ...WAIT }, ({ resource }) => resource);
    await flush();
    await second.release();
    expect(await third).toBe(second.resource);
    expect(first.check()).toBe(first.token);
  });

  test("L1: the slot of a holder that crashed is free after its ttl", async () => {
    const { clock, join } = makeWorld();
    const [one, two] = [await join("one"), await join("two")];
    await one.tenure.acquire("gpu", { slots: 1 });
    one.store.hookAll(hang);
    const waiting = two.tenure.acquire("gpu", { slots: 1, ...WAIT });
    await clock.advance(TIMING.ttlMs);
    expect((await waiting).check()).toBe(2n);
  });

  test("a call inside the work of a slot throws, or returns the same slot with reentrant", async () => {
    const { join } = makeWorld();
    const { tenure } = await join("one");
    await tenure.withLease("gpu", { slots: 2 }, async ({ resource }) => {
      await expect(tenure.acquire("gpu", { slots: 2 })).rejects.toThrow("You already hold");
      const inner = await tenure.tryAcquire("gpu", { slots: 2, reentrant: true });
      expect(inner?.resource).toBe(resource);
    });
  });

  test("an invalid signal or option is rejected as without slots", async () => {
    const { join } = makeWorld();
    const { tenure } = await join("one");
    const signal = new AbortController() as never;
    await expect(tenure.acquire("gpu", { slots: 2, signal })).rejects.toThrow(
      "`signal` must be an AbortSignal",
    );
    await expect(tenure.acquire("gpu", { slots: 2, waitMs: -1 })).rejects.toThrow("`waitMs`");
    await expect(tenure.acquire("", { slots: 2 })).rejects.toThrow("Expected a resource name");
  });

  test.each([0, -1, 1.5, 1_001, "2"])("slots: %s is rejected", async (slots) => {
    const { join } = makeWorld();
    const { tenure } = await join("one");
    const options = { slots: slots as number };
    await expect(tenure.acquire("gpu", options)).rejects.toThrow("`slots` must be a whole number");
    await expect(tenure.tryAcquire("gpu", options)).rejects.toThrow("`slots` must be a whole");
  });
});
