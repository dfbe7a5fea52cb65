// Goal: a reset of the guards on Redis, etcd and ZooKeeper lets lower tokens in and deletes only the token that its caller has
// seen; a guard object that remembers the time before the reset never admits more than a new one. Method: real servers.
import { Redis } from "ioredis";
import { afterAll, describe, expect, test } from "vitest";
import * as etcd from "../../src/guards/etcd.ts";
import type { Guard } from "../../src/guards/guard.ts";
import * as redis from "../../src/guards/redis.ts";
import * as zookeeper from "../../src/guards/zookeeper.ts";
import { startEtcd } from "../servers/etcd.ts";
import { startRedis } from "../servers/redis.ts";
import { useServer } from "../servers/use-server.ts";
import { startZooKeeper } from "../servers/zookeeper.ts";

const servers = {
  redis: useServer(startRedis),
  etcd: useServer(startEtcd),
  zookeeper: useServer(startZooKeeper),
};

/** A token of a store that counts from the wall clock, and one of a consensus log. */
const LARGE = 1_794_945_356_059_000n;
const SMALL = 42n;
const source = (token: bigint, resource = "ledger") => ({ resource, token });

interface Subject {
  open(place: string): Guard & { close?(): Promise<void> };
  reset(place: string, resource: string, highest: bigint): Promise<boolean>;
}

const clients: Redis[] = [];
afterAll(() => {
  for (const client of clients) client.disconnect();
});
function client(): Redis {
  const made = new Redis(servers.redis().url);
  clients.push(made);
  return made;
}

const subjects: Record<keyof typeof servers, Subject> = {
  redis: {
    open: (prefix) => redis.redisGuard(client(), { prefix }),
    reset: (prefix, resource, highest) =>
      redis.resetHighest(client(), resource, { prefix, highest }),
  },
  etcd: {
    open: (place) => etcd.etcdGuard(`${servers.etcd().url}/${place}`),
    reset: (place, resource, highest) =>
      etcd.resetHighest(`${servers.etcd().url}/${place}`, resource, { highest }),
  },
  zookeeper: {
    open: (place) => zookeeper.zookeeperGuard(`${servers.zookeeper().url}/${place}`),
    reset: (place, resource, highest) =>
      zookeeper.resetHighest(`${servers.zookeeper().url}/${place}`, resource, { highest }),
  },
};

describe.each(Object.entries(subjects))("the guard on %s", (name, { open, reset }) => {
  const place = `reset-${name}`;

  test("S2: refuses a lower token, admits it after a reset, and then refuses what is below that", async () => {
    const before = open(place);
    await before.raise(source(LARGE));
    await before.raise(source(LARGE, "other"));
    await expect(before.raise(source(SMALL))).rejects.toThrow("stale");
    expect(await reset(place, "ledger", LARGE - 1n)).toBe(false);
    expect(await before.highest("ledger")).toBe(LARGE);
    expect(await reset(place, "ledger", LARGE)).toBe(true);
    expect(await before.highest("ledger")).toBeUndefined();
    expect(await reset(place, "ledger", LARGE)).toBe(true);
    expect(await reset(place, "nobody", LARGE)).toBe(true);
    const after = open(place);
    await after.raise(source(SMALL));
    expect(await after.highest("ledger")).toBe(SMALL);
    await expect(after.raise(source(SMALL - 1n))).rejects.toThrow("stale");
    await expect(after.raise(source(SMALL, "other"))).rejects.toThrow("stale");
    await Promise.all([before.close?.(), after.close?.()]);
  });

  test("S2: a guard object from before a reset does not take a new highest for the one it remembers", async () => {
    const old = open(`${place}-remembered`);
    // As often as the highest is written after the reset: a count that started again would come to the same number.
    await old.raise(source(5n));
    expect(await reset(`${place}-remembered`, "ledger", 5n)).toBe(true);
    const next = open(`${place}-remembered`);
    await next.raise(source(7n));
    await expect(old.raise(source(5n))).rejects.toThrow("stale");
    await Promise.all([old.close?.(), next.close?.()]);
  });
});
