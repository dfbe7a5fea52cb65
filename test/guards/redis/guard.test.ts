// Goal: the Redis guard follows the rule of all guards with both client libraries, uses one script
// call per write, keeps numbers exact, and reports errors that say what to change. Method: the
// conformance suite and a real server; the data is read back without the guard.

import { Redis } from "ioredis";
import { createClient } from "redis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { boundedBy } from "../../../src/guards/proof/bounded.ts";
import { type RedisGuardClient, redisGuard } from "../../../src/guards/redis/index.ts";
import { connect } from "../../../src/index.ts";
import { type GuardInSuite, guardSuite } from "../../../src/testing/index.ts";
import { startRedis } from "../../servers/redis.ts";
import { useServer } from "../../servers/use-server.ts";
import { onSharedServer } from "../../support/stores/store-runner.ts";

// appendonly, because the highest token must survive a restart.
const server = useServer(startRedis, { appendonly: true, appendfsync: "always" });

const open: (() => void)[] = [];
afterAll(() => {
  for (const close of open) close();
});

const libraries: Record<string, () => Promise<RedisGuardClient>> = {
  ioredis: async () => {
    const client = new Redis(server().url);
    client.on("error", () => undefined);
    open.push(() => client.disconnect());
    return client;
  },
  "node-redis": async () => {
    const client = createClient({ url: server().url });
    client.on("error", () => undefined);
    await client.connect();
    open.push(() => client.destroy());
    return client;
  },
};

let names = 0;
function fresh(): string {
  names += 1;
  return `{t${names}}:guard`;
}
const source = (token: bigint, resource = "ledger") => ({ resource, token });
const APPEND = "redis.call('RPUSH', KEYS[1], ARGV[1])";

for (const [name, make] of Object.entries(libraries)) {
  guardSuite(onSharedServer, {
    name: `redis (${name})`,
    rollsBack: false,
    create: () => {
      const prefix = fresh();
      const listKey = (resource: string): string => `${prefix}:list:${resource}`;
      return {
        open: async (options) => {
          const guard = redisGuard(await make(), { prefix, ...options });
          const write: GuardInSuite["write"] = async (given, text) => {
            const input = { keys: [listKey(given?.resource ?? "ledger")], args: [text] };
            await (given === undefined
              ? guard.script(APPEND, input)
              : guard.script(given, APPEND, input));
          };
          return { advance: guard.advance, highest: guard.highest, write };
        },
        written: async (resource) =>
          (await server().command("LRANGE", listKey(resource), "0", "-1")) as string[],
        restart: async () => {
          await server().kill();
          await server().start();
        },
        close: () => undefined,
      };
    },
  });

  describe(`the Redis guard over ${name}`, () => {
    let client: RedisGuardClient;
    beforeAll(async () => {
      client = await make();
    });

    test("S2: every kind of write is done for the current token and rejected for a stale one", async () => {
      const prefix = fresh();
      const guard = redisGuard(client, { prefix });
      const [key, hash, count] = ["a", "b", "c"].map((part) => `${prefix}:${part}`) as [
        string,
        string,
        string,
      ];
      const now = source(5n);
      await guard.set(now, key, "value");
      expect(await server().command("GET", key)).toBe("value");
      await guard.set(now, key, Buffer.from([255, 0, 1]), { ttlMs: 60_000 });
      expect(Number(await server().command("PTTL", key))).toBeGreaterThan(0);
      expect(await server().command("STRLEN", key)).toBe(3);
      expect(await guard.hset(now, hash, { one: "1", two: "2" })).toBe(2);
      expect(await guard.incr(now, count)).toBe(1n);
      expect(await guard.incr(now, count, 2n ** 62n)).toBe(2n ** 62n + 1n);
      expect(await guard.publish(now, "nobody", "hears")).toBe(0);
      expect(await guard.del(now, key, `${prefix}:none`)).toBe(1);

      const late = source(4n);
      const acts = [
        guard.set(late, key, "late"),
        guard.set(late, key, "late", { ttlMs: 1_000 }),
        guard.hset(late, hash, { one: "late" }),
        guard.incr(late, count),
        guard.publish(late, "nobody", "late"),
        guard.del(late, hash),
        guard.script(late, "return redis.call('DEL', KEYS[1])", { keys: [hash] }),
      ];
      for (const act of acts) {
        await expect(act).rejects.toMatchObject({
          code: "STALE_TOKEN",
          resource: "ledger",
          offered: 4n,
          highest: 5n,
        });
      }
      expect(await server().command("EXISTS", key)).toBe(0);
      expect(await server().command("HGET", hash, "one")).toBe("1");
      expect(await server().command("GET", count)).toBe(String(2n ** 62n + 1n));
    });

    test("the highest has no ttl and is 39 digits of text", async () => {
      const prefix = fresh();
      const guard = redisGuard(client, { prefix });
      await guard.advance(source(7n, "r"));
      expect(await server().command("GET", `${prefix}:r`)).toBe("7".padStart(39, "0"));
      expect(await server().command("PTTL", `${prefix}:r`)).toBe(-1);
      expect(await guard.highest("r")).toBe(7n);
    });

    test("a user's script sees its own KEYS and ARGV, and returns and fails as it would alone", async () => {
      const guard = redisGuard(client, { prefix: fresh() });
      const run = (lua: string, input = {}) => guard.script(source(1n), lua, input);
      const echo = "return {#KEYS, #ARGV, KEYS[1] or false, ARGV[1] or false}";
      expect(await run(echo, { keys: ["{x}k"], args: ["a", 7, 9n] })).toEqual([1, 3, "{x}k", "a"]);
      expect(await run(echo)).toEqual([0, 0, null, null]);
      expect(await run("local x = 1 -- a comment at the end")).toBeNull();
      expect(await run("return redis.status_reply('FINE')")).toBe("FINE");
      await expect(run("return redis.error_reply('OWN words')")).rejects.toThrow("OWN words");
      await expect(run("redis.call('NOSUCH')")).rejects.toThrow(/unknown|Unknown/);
      await expect(run("\n\nthis is no lua")).rejects.toThrow(/:3:/);
    });

    test("scripts are sent again, in the same call, to a server that has lost them", async () => {
      const prefix = fresh();
      const guard = redisGuard(client, { prefix });
      await guard.set(source(1n), `${prefix}:k`, "1");
      await server().command("SCRIPT", "FLUSH");
      await guard.set(source(1n), `${prefix}:k`, "2");
      expect(await server().command("GET", `${prefix}:k`)).toBe("2");
    });

    test("a write is one command", async () => {
      const prefix = fresh();
      const guard = redisGuard(client, { prefix });
      await guard.incr(source(1n), `${prefix}:k`);
      const calls = async (): Promise<number> =>
        Number(
          /cmdstat_evalsha:calls=(\d+)/.exec(
            String(await server().command("INFO", "commandstats")),
          )?.[1],
        );
      const before = await calls();
      for (let index = 0; index < 10; index += 1) await guard.incr(source(1n), `${prefix}:k`);
      expect(await calls()).toBe(before + 10);
    });

    test("S2: a malformed highest token is reported, and nothing is written", async () => {
      const prefix = fresh();
      const guard = redisGuard(client, { prefix });
      for (const junk of ["", "7", "x".repeat(39), "1e38".padEnd(39, "0")]) {
        await server().command("SET", `${prefix}:ledger`, junk);
        const failure = { code: "STORE_UNUSABLE" };
        await expect(guard.set(source(9n), `${prefix}:k`, "v")).rejects.toMatchObject(failure);
        await expect(guard.advance(source(9n))).rejects.toMatchObject(failure);
        await expect(guard.highest("ledger")).rejects.toMatchObject(failure);
        expect(await server().command("EXISTS", `${prefix}:k`)).toBe(0);
        expect(await server().command("GET", `${prefix}:ledger`)).toBe(junk);
      }
    });

    test("invalid input is rejected before anything is sent", async () => {
      const prefix = fresh();
      const guard = redisGuard(client, { prefix });
      const bad = { code: "INVALID_ARGUMENT" };
      const now = source(1n);
      const many = Array.from({ length: 5_000 }, (_, index) => `${prefix}:${index}`);
      const acts = [
        guard.set(now, "", "v"),
        guard.set(now, "k", 7 as unknown as string),
        guard.set(now, "k", "v", { ttlMs: 1.5 }),
        guard.set(undefined as never, "k", "v"),
        guard.del(now),
        guard.del(now, ...many),
        guard.hset(now, "k", {}),
        guard.incr(now, "k", 1.5),
        guard.publish(now, "c", undefined as never),
        guard.script(now, ""),
        guard.script(now, "#!lua flags=no-writes\nreturn 1"),
        guard.script(now, "return 1", { args: [{} as never] }),
        guard.set("k", "outside of run()"),
      ];
      for (const act of acts) await expect(act).rejects.toMatchObject(bad);
      expect(await guard.highest("ledger")).toBeUndefined();
    });

    test("S2: a bounded guard queries the store once, and a token that was never granted has no effect", async () => {
      await using tenure = await connect(server().url);
      const prefix = fresh();
      const inner = redisGuard(client, { prefix });
      let asked = 0;
      const read: typeof tenure.read = (...args) => {
        asked += 1;
        return tenure.read(...args);
      };
      const guard = boundedBy(inner, { read });
      const resource = `bounded by ${name}`;
      const lease = await tenure.acquire(resource);
      for (let index = 0; index < 3; index += 1) await guard.incr(lease, `${prefix}:n`);
      expect([await server().command("GET", `${prefix}:n`), asked]).toEqual(["3", 1]);
      const poison = source(2n ** 127n - 1n, resource);
      const notHeld = { code: "UNTRUSTED_TOKEN", reason: "notHeld" };
      await expect(guard.set(poison, `${prefix}:k`, "poison")).rejects.toMatchObject(notHeld);
      await expect(guard.advance(poison)).rejects.toMatchObject(notHeld);
      expect(await server().command("EXISTS", `${prefix}:k`)).toBe(0);
      expect(await inner.highest(resource)).toBe(lease.token);
      await lease.run(() => guard.set(`${prefix}:k`, "kept"));
      expect(await server().command("GET", `${prefix}:k`)).toBe("kept");
    });

    test("inside lease.run() every write finds the lease by itself", async () => {
      await using tenure = await connect("memory:");
      const prefix = fresh();
      const guard = redisGuard(client, { prefix });
      await tenure.withLease("ledger", async (lease) => {
        await lease.run(async () => {
          await guard.set(`${prefix}:k`, "v");
          expect(await guard.incr(`${prefix}:n`)).toBe(1n);
          expect(await guard.script("return ARGV[1]", { args: ["x"] })).toBe("x");
        });
        expect(await guard.highest("ledger")).toBe(lease.token);
      });
    });
  });
}

test("an object that is not a Redis client is rejected", () => {
  for (const client of [undefined, {}, "redis://localhost", { eval: () => undefined }]) {
    expect(() => redisGuard(client as never)).toThrow("ioredis");
  }
  const client = { eval: () => undefined, evalsha: () => undefined } as never;
  expect(() => redisGuard(client, { prefix: "" })).toThrow("must not be empty");
  expect(() => redisGuard(client, { resource: "" })).toThrow("resource name");
});
