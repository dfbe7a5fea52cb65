// Goal: the store's data on the server stays small and recovers from deletions. Method: a real
// server whose keys are inspected and deleted directly.
import { Redis } from "ioredis";
import { describe, expect, onTestFinished, test } from "vitest";
import { ERA_GAP } from "../../../src/core/era.ts";
import { systemParts } from "../../../src/runtime/system.ts";
import type { Store } from "../../../src/stores/contract.ts";
import { redisStore } from "../../../src/stores/redis/index.ts";
import { until } from "../../servers/ask.ts";
import { startRedis } from "../../servers/redis.ts";
import { useServer } from "../../servers/use-server.ts";
import { collectMessages, LIMIT_MS, redisWorld } from "../../support/stores/redis-world.ts";

const redis = useServer(startRedis, { own: true });
const { opened, session, take, queue, cycle } = redisWorld(redis, "keys");

describe("keys", () => {
  test("S1: after the counter was deleted, every resource gets a higher token than before", async () => {
    const { store, base } = await opened();
    await session(store, "one");
    let before = 0n;
    for (let round = 0; round < 12; round += 1) {
      before = await take(store, "one", "r");
      await store.release({ sessionId: "one", resource: "r", token: before, limitMs: LIMIT_MS });
    }
    await redis().command("DEL", `${base}token`);
    const first = await take(store, "one", "never seen");
    expect(first).toBeGreaterThan(before);
    expect(await take(store, "one", "r")).toBe(first + 1n);
  });

  test("S1: if the counter falls below a token of the resource, an era starts above that token", async () => {
    const { store, base } = await opened();
    await session(store, "one");
    // Ahead of the clock, and beyond what a Lua number can hold.
    const high = 2n ** 60n;
    await redis().command("SET", `${base}token`, String(high));
    expect(await cycle(store, "one", "r")).toBe(high + 1n);
    // Smaller as a number, but not in text order.
    await redis().command("SET", `${base}token`, "99");
    expect(await take(store, "one", "r")).toBe(high + 1n + ERA_GAP / 4n + 1n);
    expect(await take(store, "one", "other")).toBe(high + 1n + ERA_GAP / 4n + 2n);
  });

  test("S1: tokens beyond what a Lua number can hold are exact", async () => {
    const { store, base } = await opened();
    await session(store, "one");
    await redis().command("SET", `${base}token`, "9007199254740989");
    for (let token = 9007199254740990n; token < 9007199254741002n; token += 1n)
      expect(await cycle(store, "one", "r")).toBe(token);
  });

  test("a record of an older version can be read, but does not say how long the lease has been held", async () => {
    const { store, base } = await opened();
    await session(store, "one");
    await take(store, "one", "r");
    const key = `${base}r:r`;
    const text = String(await redis().command("GET", key));
    expect(text).toMatch(/,"grantedAtMs":\d{13}\}$/);
    const read = async (): Promise<number | undefined> => {
      const request = { resource: "r", consistency: "linearizable", limitMs: LIMIT_MS } as const;
      return (await store.read(request)).holder?.heldForMs;
    };
    expect(await read()).toBeGreaterThanOrEqual(0);
    await redis().command("SET", key, text.replace(/,"grantedAtMs":\d+/, ""));
    expect(await read()).toBeUndefined();
    // As if the server's clock had been set back.
    await redis().command("SET", key, text.replace(/\d+\}$/, "9000000000000}"));
    expect(await read()).toBe(0);
  });

  test("S1: a counter that is not an integer is rejected and left unchanged", async () => {
    const { store, base } = await opened();
    await session(store, "one");
    await redis().command("SET", `${base}token`, "1.5");
    await expect(take(store, "one", "r")).rejects.toMatchObject({ code: "STORE_UNUSABLE" });
    expect(await redis().command("GET", `${base}token`)).toBe("1.5");
  });

  test("S1: a counter at the end of 64 bits fails instead of wrapping around", async () => {
    const { store, base } = await opened();
    await session(store, "one");
    await redis().command("SET", `${base}token`, "9223372036854775807");
    await expect(take(store, "one", "r")).rejects.toMatchObject({ code: "STORE_UNUSABLE" });
    const read = { resource: "r", consistency: "linearizable", limitMs: LIMIT_MS } as const;
    expect((await store.read(read)).holder).toBeUndefined();
  });

  test("after a release, only the counter, its era and keys with a ttl remain", async () => {
    const { store, base } = await opened();
    await session(store, "one");
    const token = await take(store, "one", "r");
    await store.release({ sessionId: "one", resource: "r", token, limitMs: LIMIT_MS });
    await store.endSession({ sessionId: "one", limitMs: LIMIT_MS });
    const keys = (await redis().command("KEYS", `${base}*`)) as string[];
    const lasting: string[] = [];
    for (const key of keys) if ((await redis().command("PTTL", key)) === -1) lasting.push(key);
    expect(lasting.sort()).toEqual([`${base}era`, `${base}token`]);
  });

  test("S4: the key of a held lease has no ttl: it lasts as long as its session", async () => {
    const { store, base } = await opened();
    await session(store, "one");
    const token = await take(store, "one", "r");
    await store.release({ sessionId: "one", resource: "r", token, limitMs: LIMIT_MS });
    await take(store, "one", "r");
    expect(await redis().command("PTTL", `${base}r:r`)).toBe(-1);
  });

  test("a withdrawn waiter leaves nothing behind, and the next waiter is served", async () => {
    const { store, base } = await opened();
    for (const id of ["one", "two", "three"]) await session(store, id);
    const token = await take(store, "one", "r");
    for (const id of ["two", "three"]) await queue(store, id, "r");
    const two = { sessionId: "two", resource: "r", attempt: "two.queued", limitMs: LIMIT_MS };
    await store.withdraw(two);
    expect(await redis().command("ZCARD", `${base}w:r`)).toBe(1);
    expect(await redis().command("EXISTS", `${base}a:two`)).toBe(0);
    await store.release({ sessionId: "one", resource: "r", token, limitMs: LIMIT_MS });
    const read = { resource: "r", consistency: "linearizable", limitMs: LIMIT_MS } as const;
    expect((await store.read(read)).holder?.sessionId).toBe("three");
    expect(await redis().command("EXISTS", `${base}w:r`, `${base}a:three`)).toBe(0);
  });

  test("contention leaves nothing behind but keys with a ttl", async () => {
    const { store, base } = await opened();
    for (const id of ["one", "two"]) await session(store, id);
    const token = await take(store, "one", "r");
    await queue(store, "two", "r");
    for (const key of ["w:r", "a:two", "n:one"])
      expect((await redis().command("PTTL", `${base}${key}`)) as number, key).toBeGreaterThan(0);
    await store.release({ sessionId: "one", resource: "r", token, limitMs: LIMIT_MS });
    for (const id of ["one", "two"]) await store.endSession({ sessionId: id, limitMs: LIMIT_MS });
    const keys = (await redis().command("KEYS", `${base}*`)) as string[];
    const names = keys.map((key) => key.slice(base.length)).sort();
    expect(names.filter((name) => name !== "probe")).toEqual(["era", "r:r", "token"]);
  });

  test("the keys of an uncontended lease are its session, its record, the list and the counter", async () => {
    const { store, base } = await opened();
    await session(store, "one");
    await take(store, "one", "r");
    const keys = (await redis().command("KEYS", `${base}*`)) as string[];
    const names = keys.map((key) => key.slice(base.length)).sort();
    expect(names.filter((name) => name !== "probe")).toEqual([
      "era",
      "held",
      "r:r",
      "s:one",
      "token",
    ]);
  });

  test("S4: records of an older version are read: K is held, L is free", async () => {
    const { store, base } = await opened();
    await session(store, "one");
    const token = await take(store, "one", "r");
    const text = String(await redis().command("GET", `${base}r:r`));
    await redis().command("SET", `${base}r:r`, text.replace(/^H/, "K"));
    await expect(take(store, "one", "r")).rejects.toThrow("busy");
    await redis().command("SET", `${base}r:r`, text.replace(/^H/, "L"));
    expect(await take(store, "one", "r")).toBeGreaterThan(token);
  });

  test("leases of an expired session are removed when another session opens", async () => {
    const { store, base } = await opened();
    await session(store, "dead");
    for (let lease = 0; lease < 5; lease += 1) await take(store, "dead", `r${lease}`);
    // The session expires now, not while a busy machine is still taking the leases.
    await redis().command("PEXPIRE", `${base}s:dead`, "1");
    const isGone = async (): Promise<boolean> =>
      (await redis().command("EXISTS", `${base}s:dead`)) === 0;
    await until("the session has expired", isGone, LIMIT_MS);
    await session(store, "one");
    expect(await redis().command("ZCARD", `${base}held`)).toBe(0);
  });
});

describe("grants and releases", () => {
  test("S5: a release with a similar but different token or session changes nothing", async () => {
    const { store, base } = await opened();
    for (const id of ["1", "11", "1:1"]) await session(store, id);
    for (let round = 1; round < 12; round += 1) await take(store, "1", `other ${round}`);
    await redis().command("SET", `${base}token`, "11");
    const token = await take(store, "11", "r");
    expect(token).toBe(12n);
    const release = (sessionId: string, offered: bigint): ReturnType<Store["release"]> =>
      store.release({ sessionId, resource: "r", token: offered, limitMs: LIMIT_MS });
    expect(await release("11", 1n)).toEqual({ kind: "notHeld" });
    expect(await release("11", 120n)).toEqual({ kind: "notHeld" });
    expect(await release("1", token)).toEqual({ kind: "notHeld" });
    expect(await release("1:1", token)).toEqual({ kind: "notHeld" });
    expect(await release("11", token)).toEqual({ kind: "released" });
    expect(await release("11", token)).toEqual({ kind: "notHeld" });
  });

  test("S1: an attempt that has ended is not granted again, however often the resource was taken", async () => {
    const { store } = await opened();
    await session(store, "one");
    for (let round = 0; round < 4; round += 1) {
      const attempt = `once more ${round}`;
      const request = { sessionId: "one", holderId: "one", resource: "r", attempt, queue: false };
      const ask = (): ReturnType<Store["grant"]> => store.grant({ ...request, limitMs: LIMIT_MS });
      const granted = await ask();
      expect(await ask()).toEqual(granted);
      const token = granted.kind === "granted" ? granted.token : 0n;
      await store.release({ sessionId: "one", resource: "r", token, limitMs: LIMIT_MS });
      expect(await ask()).toEqual({ kind: "ended" });
    }
  });

  test("S5: a release from an expired session is a no-op", async () => {
    const { store, base } = await opened();
    await session(store, "one");
    const token = await take(store, "one", "r");
    await redis().command("DEL", `${base}s:one`);
    const request = { sessionId: "one", resource: "r", token, limitMs: LIMIT_MS };
    expect(await store.release(request)).toEqual({ kind: "notHeld" });
  });

  test("S4: an expired session is granted nothing, even if the resource is free", async () => {
    const { store, base } = await opened();
    await session(store, "one");
    const token = await take(store, "one", "r");
    await store.release({ sessionId: "one", resource: "r", token, limitMs: LIMIT_MS });
    await redis().command("DEL", `${base}s:one`);
    await expect(take(store, "one", "r")).rejects.toThrow("gone");
    await expect(take(store, "one", "new")).rejects.toThrow("gone");
  });

  test("nothing is published without waiters and watchers", async () => {
    const { store, base } = await opened();
    const received = await collectMessages(redis(), base);
    await session(store, "one");
    await cycle(store, "one", "r");
    await cycle(store, "one", "r");
    const stop = new AbortController();
    const watching = store.watch({ prefix: "r", signal: stop.signal })[Symbol.asyncIterator]();
    const change = watching.next();
    const isAnnounced = async (): Promise<boolean> =>
      (await redis().command("EXISTS", `${base}watched`)) === 1;
    await until("the watch is announced", isAnnounced, LIMIT_MS);
    // An earlier message would have arrived before those of this cycle.
    await cycle(store, "one", "r");
    await until("the messages arrived", async () => received.length >= 2, LIMIT_MS);
    expect(received).toEqual(["changes r", "changes r"]);
    expect((await redis().command("PTTL", `${base}watched`)) as number).toBeGreaterThan(0);
    stop.abort();
    await change;
  });
});

describe("expiry", () => {
  test("S3: a session lasts one millisecond longer than its ttl, counted from when the request was sent", async () => {
    const client = new Redis(redis().url);
    onTestFinished(() => client.disconnect());
    const store = await redisStore({ client, prefix: "expiry" })(systemParts());
    onTestFinished(() => store.close());
    const ttlMs = 5_000;
    const one = { sessionId: "one", holderId: "one", ttlMs, limitMs: LIMIT_MS };
    const requests = [
      () => store.openSession(one),
      () => store.renew({ ...one, withdrawn: [], acknowledged: [] }),
      () => store.openSession({ ...one, ttlMs: ttlMs - 0.5 }),
    ];
    for (let round = 0; round < 60; round += 1) {
      // Both commands leave in one packet: the server reads its clock and then handles the request.
      const asked = client.time();
      await requests[round % requests.length]?.();
      const [seconds, micros] = await asked;
      const sentAt = Number(seconds) * 1_000 + Number(micros) / 1_000;
      const last = Number(await client.call("pexpiretime", "{expiry}:s:one"));
      // Redis deletes a key when its clock, in whole milliseconds, is past the key's last one.
      expect(last + 1 - sentAt).toBeGreaterThanOrEqual(ttlMs + 1);
    }
  });
});
