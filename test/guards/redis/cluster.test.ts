// Goal: on a cluster, the guard works if the user's keys share its slot, and otherwise says what to
// change. Method: a real cluster of two masters, with the cluster clients of both libraries and
// resources on both nodes.

import { Cluster } from "ioredis";
import { createCluster } from "redis";
import { describe, expect, onTestFinished, test } from "vitest";
import { type RedisGuardClient, redisGuard } from "../../../src/guards/redis/index.ts";
import { useRedisCluster } from "../../servers/use-redis-cluster.ts";

const { low } = useRedisCluster();

const makers: Record<string, () => Promise<RedisGuardClient>> = {
  ioredis: async () => {
    const client = new Cluster([{ host: low().host, port: low().port }]);
    onTestFinished(() => client.disconnect());
    return client;
  },
  "node-redis": async () => {
    const client = createCluster({ rootNodes: [{ url: low().url }] });
    await client.connect();
    onTestFinished(() => client.destroy());
    return client;
  },
};

describe.each(Object.entries(makers))("the cluster client of %s", (name, make) => {
  test("S2: keys with the hash tag of the resource or of the prefix are guarded on every node", async () => {
    const client = await make();
    const places = new Set<boolean>();
    for (const resource of ["a", "b", "c", "d", "orders/{eu}", `{${name}}/x`]) {
      const tag = /\{(.+)\}/.exec(resource)?.[1] ?? resource;
      const guard = redisGuard(client, { prefix: `own-${name}` });
      await guard.set({ resource, token: 2n }, `{${tag}}:${name}`, "v");
      await expect(
        guard.set({ resource, token: 1n }, `{${tag}}:${name}`, "late"),
      ).rejects.toMatchObject({ code: "STALE_TOKEN", highest: 2n });
      expect(await guard.highest(resource)).toBe(2n);
      places.add(Number(await low().command("CLUSTER", "KEYSLOT", `{${tag}}`)) < 8192);
    }
    expect(places.size).toBe(2);
    const billing = redisGuard(client, { prefix: `{billing-${name}}:guard` });
    expect(await billing.incr({ resource: "any", token: 1n }, `{billing-${name}}:n`)).toBe(1n);
  });

  test("keys of another slot are rejected with advice, and nothing is written", async () => {
    const guard = redisGuard(await make(), { prefix: `cross-${name}` });
    const act = guard.set({ resource: "ledger", token: 1n }, "elsewhere", "v");
    await expect(act).rejects.toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringMatching(/same hash tag.*\{tag\}:guard/),
    });
    expect(await guard.highest("ledger")).toBeUndefined();
  });
});
