// Redis, through both libraries, against SET NX PX and a compare-and-delete as scripts, and against redlock and
// redis-semaphore.

import { Redis } from "ioredis";
import { createClient } from "redis";
import { startRedis } from "../../test/servers/redis.ts";
import { redisRequests } from "../../test/servers/requests.ts";
import { NO_SESSION } from "../compare/entrants.ts";
import { pinnedVersion, tryLoadPeer } from "../peers/install.ts";
import type { BenchServer, EngineBench, Floor, Peer } from "./engine.ts";

const TTL_MS = 10_000;
const LOCK = `if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
return 0`;
const UNLOCK = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;

type Send = (...words: string[]) => Promise<unknown>;

async function start(library: string): Promise<BenchServer> {
  const server = await startRedis({ own: true });
  return {
    url: `${server.url}?library=${library}`,
    requests: () => redisRequests(server),
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

function plainUrl({ url }: BenchServer): string {
  return url.replace(/\?.*/, "");
}

async function floorOver(send: Send, close: () => void): Promise<Floor> {
  const [lock, unlock] = [await send("script", "LOAD", LOCK), await send("script", "LOAD", UNLOCK)];
  let values = 0;
  return {
    pair: async (index) => {
      values += 1;
      const [key, value] = [`floor/${index}`, `value ${values}`];
      const locked = await send("evalsha", String(lock), "1", key, value, String(TTL_MS));
      const freed = await send("evalsha", String(unlock), "1", key, value);
      if (Number(locked) !== 1 || Number(freed) !== 1) throw new Error("the floor did not lock");
    },
    trip: async () => void (await send("ping")),
    close: async () => close(),
  };
}

interface Redlock {
  acquire(resources: string[], ttlMs: number): Promise<{ release(): Promise<unknown> }>;
}
interface RedlockModule {
  default: new (clients: unknown[], settings: object) => Redlock;
}
interface SemaphoreModule {
  Mutex: new (
    client: unknown,
    key: string,
    options: object,
  ) => { acquire(): Promise<void>; release(): Promise<void> };
}

async function openPeers(server: BenchServer): Promise<Peer[]> {
  const [redlock, semaphore, ioredis] = [
    await tryLoadPeer<RedlockModule>("redlock"),
    await tryLoadPeer<SemaphoreModule>("redis-semaphore"),
    await tryLoadPeer<{ Redis: typeof Redis }>("ioredis"),
  ];
  if (redlock === undefined || semaphore === undefined || ioredis === undefined) return [];
  const client = new ioredis.Redis(plainUrl(server));
  const locks = new redlock.default([client], { retryCount: 0 });
  const options = { lockTimeout: TTL_MS, acquireAttemptsLimit: 1 };
  return [
    {
      name: `redlock ${pinnedVersion("redlock")}`,
      lacks: NO_SESSION,
      pair: async (index) => {
        const lock = await locks.acquire([`redlock/${index}`], TTL_MS);
        await lock.release();
      },
      close: async () => client.disconnect(),
    },
    {
      name: `redis-semaphore ${pinnedVersion("redis-semaphore")}`,
      lacks: NO_SESSION,
      pair: async (index) => {
        const mutex = new semaphore.Mutex(client, `semaphore/${index}`, options);
        await mutex.acquire();
        await mutex.release();
      },
      close: async () => undefined,
    },
  ];
}

export const ioredisBench: EngineBench = {
  name: "Redis (ioredis)",
  start: () => start("ioredis"),
  openFloor: async (server) => {
    const client = new Redis(plainUrl(server));
    return floorOver(
      (...words) => client.call(...(words as [string])),
      () => client.disconnect(),
    );
  },
  openPeers,
  peerShare: 1,
  holdingPeer: "redis-semaphore",
};

export const nodeRedisBench: EngineBench = {
  name: "Redis (node-redis)",
  start: () => start("redis"),
  openFloor: async (server) => {
    const client = createClient({ url: plainUrl(server) });
    await client.connect();
    return floorOver(
      (...words) => client.sendCommand(words),
      () => client.destroy(),
    );
  },
  openPeers: async () => [],
  isWhole: false,
};
