// Goal: after a reset, the guards on Redis, etcd and ZooKeeper admit lower tokens; a reset deletes
// only the token that its caller has read; and a guard opened before the reset never admits more
// than a new one. Method: real servers.
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { Redis } from "ioredis";
import { afterAll, describe, expect, test } from "vitest";
import * as etcd from "../../../src/guards/etcd/index.ts";
import type { Guard } from "../../../src/guards/guard.ts";
import * as redis from "../../../src/guards/redis/index.ts";
import * as zookeeper from "../../../src/guards/zookeeper/index.ts";
import type { Address } from "../../servers/ask.ts";
import { startEtcd } from "../../servers/etcd.ts";
import { startRedis } from "../../servers/redis.ts";
import { useServer } from "../../servers/use-server.ts";
import { startZooKeeper } from "../../servers/zookeeper.ts";
import { reasonOf } from "../../support/stores/lost-replies.ts";

const servers = {
  redis: useServer(startRedis),
  etcd: useServer(startEtcd),
  zookeeper: useServer(startZooKeeper),
};

/** A token of a store that starts at the wall clock, and one of a store with a consensus log. */
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

  test("S2: rejects a lower token, admits it after a reset, and then rejects tokens below that one", async () => {
    const before = open(place);
    await before.advance(source(LARGE));
    await before.advance(source(LARGE, "other"));
    await expect(before.advance(source(SMALL))).rejects.toThrow("stale");
    expect(await reset(place, "ledger", LARGE - 1n)).toBe(false);
    expect(await before.highest("ledger")).toBe(LARGE);
    expect(await reset(place, "ledger", LARGE)).toBe(true);
    expect(await before.highest("ledger")).toBeUndefined();
    expect(await reset(place, "ledger", LARGE)).toBe(true);
    expect(await reset(place, "nobody", LARGE)).toBe(true);
    const after = open(place);
    await after.advance(source(SMALL));
    expect(await after.highest("ledger")).toBe(SMALL);
    await expect(after.advance(source(SMALL - 1n))).rejects.toThrow("stale");
    await expect(after.advance(source(SMALL, "other"))).rejects.toThrow("stale");
    await Promise.all([before.close?.(), after.close?.()]);
  });

  test("S2: a guard from before a reset does not confuse a new highest token with the cached one", async () => {
    const old = open(`${place}-remembered`);
    // As many writes as after the reset: a version counter that restarted would reach the same
    // number.
    await old.advance(source(5n));
    expect(await reset(`${place}-remembered`, "ledger", 5n)).toBe(true);
    const next = open(`${place}-remembered`);
    await next.advance(source(7n));
    await expect(old.advance(source(5n))).rejects.toThrow("stale");
    await Promise.all([old.close?.(), next.close?.()]);
  });
});

/**
 * A proxy between client and server. When the client sends the marker, it waits for `before`, then
 * forwards the request. With `losing`, the connection breaks when the server replies.
 */
async function relay(
  server: Address,
  {
    marker,
    before,
    losing = false,
  }: { marker: string; before?: () => Promise<void>; losing?: boolean },
): Promise<Address & AsyncDisposable> {
  const sockets = new Set<Socket>();
  const listener = createServer((near) => {
    const far = connect(server.port, server.host);
    let isLosing = false;
    let sending = Promise.resolve();
    for (const socket of [near, far]) {
      sockets.add(socket);
      socket
        .on("error", () => undefined)
        .on("close", () => [near, far].map((end) => end.destroy()));
    }
    near.on("data", (chunk) => {
      sending = sending.then(async () => {
        if (chunk.includes(marker)) {
          isLosing = losing;
          await before?.();
        }
        far.write(chunk);
      });
    });
    far.on("data", (chunk) => void (isLosing ? near.destroy() : near.write(chunk)));
  });
  await new Promise<void>((ready) => listener.listen(0, "127.0.0.1", ready));
  return {
    host: "127.0.0.1",
    port: (listener.address() as AddressInfo).port,
    [Symbol.asyncDispose]: async () => {
      for (const socket of sockets) socket.destroy();
      await new Promise((ended) => listener.close(ended));
    },
  };
}

const padded = (token: bigint): string => String(token).padStart(39, "0");

describe.each([
  ["etcd", etcd.resetHighest, padded(LARGE)],
  ["zookeeper", zookeeper.resetHighest, padded(0n)],
] as const)("a reset on %s", (name, reset, marker) => {
  const toUrl = ({ host, port }: Address, place: string) => `${name}://${host}:${port}/${place}`;

  test("S2: does nothing if a holder advances the guard right before it", async () => {
    const place = `reset-raced-${name}`;
    const guard = subjects[name].open(place);
    await guard.advance(source(LARGE));
    const before = async (): Promise<void> => void (await guard.advance(source(LARGE + 1n)));
    await using between = await relay(servers[name](), { marker, before });
    expect(await reset(toUrl(between, place), "ledger", { highest: LARGE })).toBe(false);
    expect(await guard.highest("ledger")).toBe(LARGE + 1n);
    await guard.close?.();
  });

  test("is reported as unknown if its reply is lost, and can be repeated", async () => {
    const place = `reset-lost-${name}`;
    const guard = subjects[name].open(place);
    await guard.advance(source(LARGE));
    await using between = await relay(servers[name](), { marker, losing: true });
    const lost = await reasonOf(reset(toUrl(between, place), "ledger", { highest: LARGE }));
    expect(lost).toMatchObject({ code: "GUARD_UNAVAILABLE", applied: "unknown" });
    expect(await guard.highest("ledger")).toBeUndefined();
    expect(await reset(toUrl(servers[name](), place), "ledger", { highest: LARGE })).toBe(true);
    await guard.close?.();
  });
});
