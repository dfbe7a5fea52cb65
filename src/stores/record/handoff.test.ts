// Goal: a freed resource goes to the next waiter in the same write, tokens never fall, and every
// fact reaches its session, by push or by the next renewal (S1, S5, L1, L2). Method: processes on
// one mock, whose log shows each write.

import { describe, expect, test } from "vitest";
import { recordWorld, settled, TTL_MS } from "../../../test/support/stores/record-world.ts";

describe("a handoff", () => {
  test("L2: the write that releases the resource grants it to the next waiter", async () => {
    const { mock, start } = recordWorld();
    const [one, two] = [await start("one"), await start("two")];
    const token = await one.take("r");
    const attempt = await two.queue("r");
    const before = mock.log.length;
    await one.release("r", token);
    const [write, ...others] = mock.log.slice(before).filter(({ key }) => key === "lease/r");
    expect(others).toEqual([]);
    expect(JSON.parse(write?.body ?? "")).toMatchObject({
      held: { session: "two", attempt },
      queue: [],
    });
    expect(await two.granted("r", attempt)).toBeGreaterThan(token);
  });

  test("a release needs no read if the sessions of the first waiters were read recently", async () => {
    const { clock, start, count } = recordWorld({ push: true });
    const [one, two] = [await start("one"), await start("two")];
    const token = await one.take("r");
    await two.queue("r");
    await one.reported("its lease is wanted", ({ wishes }) => wishes[0]);
    await clock.advance(1);
    expect(await count(() => one.release("r", token))).toEqual({ reads: 0, writes: 1 });
  });

  test("L1: a resource that was handed to a dead waiter is reclaimed after its ttl", async () => {
    const { clock, start } = recordWorld();
    const one = await start("one", { ttlMs: 10 * TTL_MS });
    const dead = await start("dead");
    const two = await start("two", { ttlMs: 10 * TTL_MS });
    const token = await one.take("r");
    await dead.queue("r");
    const attempt = await two.queue("r");
    await dead.store.close();
    await one.release("r", token);
    const lost = (await two.holder("r"))?.token ?? 0n;
    expect((await two.holder("r"))?.holderId).toBe("holder of dead");
    await clock.advance(TTL_MS + 2_000);
    expect(await two.granted("r", attempt)).toBeGreaterThan(lost);
  });

  test("a waiter that died is ended and dropped from the queue by a release", async () => {
    const { mock, clock, start } = recordWorld();
    const one = await start("one", { ttlMs: 10 * TTL_MS });
    const dead = await start("dead");
    const token = await one.take("r");
    await dead.queue("r");
    await clock.advance(100);
    await dead.store.close();
    await one.renew();
    await clock.advance(2 * TTL_MS);
    await one.release("r", token);
    expect(mock.fields("session/dead").ended).toBe(true);
    expect(mock.fields("lease/r").queue).toEqual([]);
    expect(mock.fields("lease/r").held).toBeUndefined();
  });

  test("L1: a waiter takes over although the waiters before it died with the holder", async () => {
    for (const push of [false, true]) {
      const { clock, start } = recordWorld({ push });
      const dead = await start("dead");
      const token = await dead.take("r");
      const waiters = [await start("a"), await start("b"), await start("c")];
      for (const waiter of waiters) await waiter.queue("r");
      const last = await start("last", { ttlMs: 10 * TTL_MS });
      const attempt = await last.queue("r");
      for (const crashed of [dead, ...waiters]) await crashed.store.close();
      await clock.advance(4 * TTL_MS);
      expect(await last.granted("r", attempt)).toBeGreaterThan(token);
    }
  });

  test("a withdrawn attempt leaves the queue, and a withdrawn grant goes to the next waiter", async () => {
    const { mock, start } = recordWorld();
    const [one, two, three] = [await start("one"), await start("two"), await start("three")];
    const token = await one.take("r");
    const [given, attempt] = [await two.queue("r"), await three.queue("r")];
    await two.withdraw("r", given);
    expect(mock.fields("lease/r").queue).toMatchObject([{ session: "three" }]);
    await one.release("r", token);
    const next = await one.queue("r");
    await three.withdraw("r", attempt);
    expect(await one.granted("r", next)).toBeGreaterThan(token + 1n);
    expect(two.events.grants).toEqual([]);
  });

  test("S5: an attempt of another session with the same name is not withdrawn", async () => {
    const { mock, start } = recordWorld();
    const [one, two] = [await start("one"), await start("two")];
    await one.take("r");
    const attempt = await two.queue("r");
    await one.withdraw("r", attempt);
    expect(mock.fields("lease/r").queue).toMatchObject([{ session: "two", attempt }]);
  });
});

describe("tokens", () => {
  test("S1: a released resource keeps its record, and the next token is above the last one", async () => {
    const { mock, start } = recordWorld();
    const one = await start("one");
    // Far above the clock.
    mock.put("lease/r", JSON.stringify({ v: 1, token: "9000000000000000", queue: [] }));
    const token = await one.take("r");
    expect(token).toBe(9_000_000_000_000_001n);
    await one.release("r", token);
    expect(mock.fields("lease/r")).toMatchObject({ token: String(token), queue: [] });
    expect(mock.fields("lease/r").held).toBeUndefined();
    const two = await start("two");
    expect(await two.take("r")).toBe(token + 1n);
    await two.end();
    expect(mock.fields("lease/r").token).toBe(String(token + 1n));
  });

  test("S1: tokens increase although the records went back to an older copy", async () => {
    const { mock, clock, start } = recordWorld();
    const one = await start("one");
    await one.release("r", await one.take("r"));
    const copy = mock.records.get("lease/r")?.body ?? "";
    let token = 0n;
    for (let round = 0; round < 5; round += 1) {
      token = await one.take("r");
      await one.release("r", token);
    }
    await clock.advance(1);
    mock.put("lease/r", copy);
    expect(await one.take("r")).toBeGreaterThan(token);
  });

  test("S8: a token at the upper limit grants nothing and affects no other resource", async () => {
    const { mock, start } = recordWorld();
    const one = await start("one");
    mock.put("lease/r", JSON.stringify({ v: 1, token: String(2n ** 127n - 1n), queue: [] }));
    expect(await settled(one.ask("r"))).toMatchObject({ error: { code: "STORE_UNUSABLE" } });
    expect((await one.ask("other")).kind).toBe("granted");
  });
});

describe("facts about a session", () => {
  test("S6: a revocation is announced before the resource is free", async () => {
    const { mock, start } = recordWorld();
    const [one, two] = [await start("one"), await start("two")];
    const token = await one.take("r");
    const before = mock.log.length;
    await two.store.revoke({ resource: "r", token, limitMs: 1_000 });
    expect(mock.log.slice(before, before + 2).map(({ key }) => key)).toEqual([
      "session/one",
      "lease/r",
    ]);
  });

  test("S6: if the revoking process fails in between, the holder learns of it and frees it", async () => {
    const { mock, clock, start } = recordWorld();
    const [one, two] = [await start("one"), await start("two")];
    const token = await one.take("r");
    mock.before = (kind, key) => {
      if (kind === "write" && key === "lease/r") mock.faults.rejectedWrites = 1;
    };
    const revoked = settled(two.store.revoke({ resource: "r", token, limitMs: 1_000 }));
    expect(await revoked).toMatchObject({ error: { applied: "unknown" } });
    mock.before = undefined;
    mock.faults.rejectedWrites = 0;
    expect(await one.renew()).toMatchObject({ gone: [{ resource: "r", token }] });
    await clock.advance(1);
    expect(await two.holder("r")).toBeUndefined();
  });

  test("a revocation of a lease whose session has no record frees it and creates none", async () => {
    const { mock, start } = recordWorld();
    const [one, two] = [await start("one"), await start("two")];
    const token = await one.take("r");
    mock.records.delete("session/one");
    const { kind } = await two.store.revoke({ resource: "r", token, limitMs: 1_000 });
    expect([kind, mock.records.has("session/one")]).toEqual(["revoked", false]);
    expect(await two.holder("r")).toBeUndefined();
    expect((await one.renew()).kind).toBe("gone");
  });

  test("L2: a grant whose push is lost is reported by the next renewal", async () => {
    const { mock, start } = recordWorld({ push: true });
    const [one, two] = [await start("one"), await start("two")];
    const token = await one.take("r");
    const attempt = await two.queue("r");
    mock.faults.lostPushes = 1_000;
    await one.release("r", token);
    const renewed = await two.renew();
    expect(renewed).toMatchObject({ kind: "renewed", granted: [{ resource: "r", attempt }] });
  });

  test("S6: a revocation whose push is lost is reported by the next renewal", async () => {
    const { mock, start } = recordWorld({ push: true });
    const [one, two] = [await start("one"), await start("two")];
    const token = await one.take("r");
    mock.faults.lostPushes = 1_000;
    await two.store.revoke({ resource: "r", token, limitMs: 1_000 });
    expect(await one.renew()).toMatchObject({ gone: [{ resource: "r", token }] });
  });

  test("a waiter learns of its grant from the push, without a read", async () => {
    const { clock, mock, start } = recordWorld({ push: true });
    const [one, two] = [await start("one"), await start("two")];
    const token = await one.take("r");
    const attempt = await two.queue("r");
    await clock.advance(100);
    await one.release("r", token);
    mock.faults.failedReads = 1_000;
    expect(await two.granted("r", attempt)).toBeGreaterThan(token);
    mock.faults.failedReads = 0;
  });

  test("pushes that arrive late, twice and in reverse report each grant once", async () => {
    const { clock, mock, start } = recordWorld({ push: true });
    const [one, two] = [await start("one"), await start("two")];
    const token = await one.take("r");
    const attempt = await two.queue("r");
    await clock.advance(100);
    mock.heldPushes = [];
    await one.release("r", token);
    const next = (await two.holder("r"))?.token ?? 0n;
    expect(await two.release("r", next)).toBe("released");
    const again = await two.queue("r").catch(() => undefined);
    const late = mock.heldPushes;
    mock.heldPushes = undefined;
    for (const push of [...late, ...late].reverse()) push();
    await clock.advance(2_000);
    expect(again).toBeUndefined();
    expect(two.events.grants.filter((grant) => grant.attempt === attempt).length).toBeLessThan(2);
    expect((await two.renew()).kind).toBe("renewed");
  });

  test("a renewal reports that the backend has lost a queued attempt", async () => {
    const { mock, start } = recordWorld();
    const [one, two] = [await start("one"), await start("two")];
    await one.take("r");
    await two.queue("r");
    expect(await two.renew()).toMatchObject({ waiting: 1 });
    mock.records.delete("lease/r");
    expect(await two.renew()).toMatchObject({ waiting: 0 });
  });

  test("a session that ends in an orderly way leaves no record", async () => {
    const { mock, start } = recordWorld();
    const one = await start("one");
    await one.take("r");
    await one.end();
    expect([...mock.records.keys()]).toEqual(["lease/r"]);
    expect(mock.fields("lease/r").held).toBeUndefined();
  });

  test("after close() no timer is left and nothing is requested", async () => {
    for (const push of [false, true]) {
      const { clock, start, count } = recordWorld({ push });
      const [one, two] = [await start("one"), await start("two")];
      await one.take("r");
      await two.queue("r");
      await clock.advance(100);
      await one.store.close();
      await two.store.close();
      await clock.advance(1);
      expect(clock.timers).toBe(0);
      expect(await count(() => clock.advance(10 * TTL_MS))).toEqual({ reads: 0, writes: 0 });
    }
  });
});
