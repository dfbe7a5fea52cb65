// redis-semaphore's Mutex as in its README's example of lost locks: `while (mutex.isAcquired)`,
// with an onLockLost. It waits by itself, with a try every 10 ms. Defaults except the ttl and the
// time to wait.
import { openRedis, requirePeer, withToken } from "./shared.mjs";

const { Mutex } = requirePeer("redis-semaphore");

async function take(client, resource, options) {
  const mutex = new Mutex(client, resource, options);
  await mutex.acquire();
  return mutex;
}

export async function holder({ url, ttlMs }) {
  const client = await openRedis(url);
  const options = { lockTimeout: ttlMs, acquireTimeout: 60_000, onLockLost: () => undefined };
  return {
    acquire: async (resource) => {
      const mutex = await take(client, resource, options);
      return { isHeld: () => mutex.isAcquired };
    },
  };
}

export async function locker({ url, ttlMs }) {
  const client = await openRedis(url);
  const options = { lockTimeout: ttlMs, acquireTimeout: 120_000 };
  return {
    lock: async (resource) => {
      const mutex = await take(client, resource, options);
      return withToken(
        () => mutex.release(),
        () => mutex.identifier,
      );
    },
    close: () => client.disconnect(),
  };
}
