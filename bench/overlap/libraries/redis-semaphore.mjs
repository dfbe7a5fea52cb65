// redis-semaphore's Mutex as in its README's example of lost locks: `while (mutex.isAcquired)`, with an onLockLost of its
// own. It waits for the lock by itself. Defaults but for the ttl and how long it waits.
import { openRedis, requirePeer, withGiven } from "./peer.mjs";

const { Mutex } = requirePeer("redis-semaphore");

export async function open({ url, ttlMs }) {
  const { hold } = await holder({ url, ttlMs });
  return { acquire: hold };
}

/** Holds any number through one client, and refreshes each. */
export async function holder({ url, ttlMs }) {
  const client = await openRedis(url);
  return {
    hold: async (resource) => {
      const mutex = new Mutex(client, resource, {
        lockTimeout: ttlMs,
        acquireTimeout: 60_000,
        onLockLost: () => undefined,
      });
      await mutex.acquire();
      return { isHeld: () => mutex.isAcquired };
    },
  };
}

/** Its own way of waiting: a try every 10 ms. */
export async function locker({ url, ttlMs }) {
  const client = await openRedis(url);
  return {
    lock: async (resource) => {
      const mutex = new Mutex(client, resource, { lockTimeout: ttlMs, acquireTimeout: 120_000 });
      await mutex.acquire();
      return withGiven(
        () => mutex.release(),
        () => mutex.identifier,
      );
    },
    close: () => client.disconnect(),
  };
}
