// Goal: the store works on a Redis Cluster through the cluster clients of both libraries and by
// URL; connecting with a plain URL fails with an error that says so. Method: a real cluster of two
// masters, and prefixes on both of them.
import { Cluster } from "ioredis";
import { createCluster } from "redis";
import { describe, expect, onTestFinished, test } from "vitest";
import type { RedisClient } from "../../../src/clients/redis/wire.ts";
import { connect } from "../../../src/index.ts";
import { systemParts } from "../../../src/runtime/system.ts";
import { redisStore } from "../../../src/stores/redis/index.ts";
import { startRedis } from "../../servers/redis.ts";
import { useRedisCluster } from "../../servers/use-redis-cluster.ts";

const { low, high } = useRedisCluster();
const prefixes = ["a", "b", "c", "d", "e", "f"];

async function findSlot(prefix: string): Promise<number> {
  return Number(await low().command("CLUSTER", "KEYSLOT", `{${prefix}}:token`));
}

const makers: Record<string, () => Promise<RedisClient>> = {
  ioredis: async () => {
    const client = new Cluster([{ host: low().host, port: low().port }]);
    onTestFinished(() => client.disconnect());
    return client as unknown as RedisClient;
  },
  "node-redis": async () => {
    const client = createCluster({ rootNodes: [{ url: low().url }] });
    await client.connect();
    onTestFinished(() => client.destroy());
    return client as unknown as RedisClient;
  },
};

describe.each(Object.entries(makers))("the cluster client of %s", (name, make) => {
  test("the store grants, wakes and lists on the node that has the prefix", async () => {
    const client = await make();
    const slots = await Promise.all(prefixes.map(findSlot));
    expect(slots.some((slot) => slot < 8192) && slots.some((slot) => slot > 8191)).toBe(true);
    for (const prefix of prefixes) {
      const tenure = await connect(redisStore({ client, prefix: `${prefix}` }));
      const lease = await tenure.acquire(`${name}/r`);
      const next = tenure.acquire(`${name}/r`, { waitMs: 10_000 });
      const other = await connect(redisStore({ client, prefix: `${prefix}` }));
      const waiting = other.acquire(`${name}/r`, { waitMs: 10_000 });
      await lease.release();
      const tokens = [lease.token];
      for (const waiter of [next, waiting]) {
        const got = await waiter;
        tokens.push(got.token);
        await got.release();
      }
      expect(new Set(tokens).size).toBe(3);
      await tenure.close();
      await other.close();
    }
  });

  test("the option `replicas` is rejected", async () => {
    const open = redisStore({ client: await make(), replicas: 1 });
    await expect(open(systemParts())).rejects.toThrow(/does not work with a cluster client/);
  });
});

describe("a cluster URL", () => {
  test("the store finds the node of every prefix from any of the hosts", async () => {
    const hosts = `127.0.0.1:1,${high().host}:${high().port},${low().host}:${low().port}`;
    for (const prefix of prefixes) {
      const url = `redis://${hosts}?cluster=1&prefix=url-${prefix}`;
      const [one, two] = [await connect(url), await connect(url)];
      const lease = await one.acquire("r");
      const waiting = two.acquire("r", { waitMs: 10_000 });
      await lease.release();
      const next = await waiting;
      expect(next.token).toBeGreaterThan(lease.token);
      await next.release();
      await Promise.all([one.close(), two.close()]);
    }
  });

  test("a URL of a server without cluster mode, of unreachable hosts or with the wrong library is rejected with the reason", async () => {
    await using plain = await startRedis({ own: true });
    await expect(connect(`${plain.url}?cluster=1`)).rejects.toThrow(/is no cluster.*cluster=1/);
    await expect(connect("redis://127.0.0.1:1,127.0.0.1:2?cluster=1")).rejects.toMatchObject({
      code: "STORE_UNAVAILABLE",
      message: expect.stringContaining("127.0.0.1:1,127.0.0.1:2"),
    });
    await expect(connect(`${low().url}?cluster=1&library=redis`)).rejects.toThrow(
      /library=ioredis/,
    );
  });
});

test.each(["ioredis", "redis"] as const)(
  "connecting with a plain URL (%s) to any node of a cluster fails with an error that says so",
  async (library) => {
    for (const node of [low(), high()]) {
      const open = redisStore({ url: node.url, library, prefix: prefixes[0] });
      await expect(open(systemParts())).rejects.toThrow(/part of a cluster.*\?cluster=1/);
    }
  },
);
