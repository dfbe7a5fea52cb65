// @verrou/core on Redis: createLock() and acquire(), which waits by its own tries. It never renews
// by itself; its documentation asks a longer holder to call extend(), and isExpired() reports a
// loss. Defaults except the ttl.
import { openRedis, requirePeer, withToken } from "./shared.mjs";

const { Verrou } = requirePeer("@verrou/core");
const { redisStore } = requirePeer("@verrou/core/drivers/redis");

function open(connection) {
  const stores = { redis: { driver: redisStore({ connection }) } };
  return new Verrou({ default: "redis", stores });
}

async function take(verrou, resource, ttlMs) {
  const lock = verrou.createLock(resource, ttlMs);
  if (!(await lock.acquire())) throw new Error("verrou gave up");
  return lock;
}

/** Our timer extends the lock at every third of its ttl. */
export async function holder({ url, ttlMs }) {
  const verrou = open(await openRedis(url));
  return {
    acquire: async (resource) => {
      const lock = await take(verrou, resource, ttlMs);
      // A lock that could not be extended expires, and isExpired() reports that.
      setInterval(() => lock.extend().catch(() => undefined), ttlMs / 3);
      return { isHeld: () => !lock.isExpired() };
    },
  };
}

export async function locker({ url, ttlMs }) {
  const connection = await openRedis(url);
  const verrou = open(connection);
  return {
    lock: async (resource) => {
      const lock = await take(verrou, resource, ttlMs);
      return withToken(
        () => lock.release(),
        () => lock.getOwner(),
      );
    },
    close: () => connection.disconnect(),
  };
}
