// Goal: the store works on a Redis Cluster through the cluster clients of both libraries, and a plain client that reaches
// the wrong node is told so. Method: a real cluster of two masters; the prefixes lie on both of them.

import { Cluster } from "ioredis";
import { createCluster } from "redis";
import { beforeAll, describe, expect, onTestFinished, test } from "vitest";
import { connect } from "../../src/index.ts";
import { systemParts } from "../../src/runtime/system.ts";
import type { RedisClient } from "../../src/stores/redis/wire.ts";
import { redisStore } from "../../src/stores/redis.ts";
import { until } from "../servers/ask.ts";
import { type RedisServer, startRedis } from "../servers/redis.ts";
import { useServer } from "../servers/use-server.ts";

const options = { args: ["--cluster-enabled", "yes", "--cluster-node-timeout", "2000"] };
const low = useServer(startRedis, options);
const high = useServer(startRedis, options);
const prefixes = ["a", "b", "c", "d", "e", "f"];

beforeAll(async () => {
  await low().command("CLUSTER", "ADDSLOTSRANGE", "0", "8191");
  await high().command("CLUSTER", "ADDSLOTSRANGE", "8192", "16383");
  await low().command("CLUSTER", "MEET", high().host, String(high().port));
  const isUp = async (server: RedisServer): Promise<boolean> =>
    String(await server.command("CLUSTER", "INFO")).includes("cluster_state:ok");
  await until("the cluster is up", async () => (await isUp(low())) && isUp(high()), 20_000);
}, 30_000);

async function slotOf(prefix: string): Promise<number> {
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
  test("grants, wakes and lists on whichever node has the prefix", async () => {
    const client = await make();
    const slots = await Promise.all(prefixes.map(slotOf));
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

  test("and replicas cannot be asked for", async () => {
    const open = redisStore({ client: await make(), replicas: 1 });
    await expect(open(systemParts())).rejects.toThrow(/does not work with a cluster client/);
  });
});

test.each(["ioredis", "redis"] as const)(
  "a plain client (%s) at the wrong node is told so",
  async (library) => {
    const prefix = prefixes[0] ?? "";
    const wrong = (await slotOf(prefix)) < 8192 ? high() : low();
    const open = redisStore({ url: wrong.url, library, prefix });
    await expect(open(systemParts())).rejects.toThrow(/part of a cluster.*cluster client/);
  },
);
