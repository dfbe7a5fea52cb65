// @verrou/core on Redis: createLock() and acquire(), which waits by its own tries. It never renews by itself; whoever holds for
// longer calls extend(), as its page says, and may ask isExpired(). Defaults but for the ttl.
import { openRedis, requirePeer, withGiven } from "./peer.mjs";

const { Verrou } = requirePeer("@verrou/core");
const { redisStore } = requirePeer("@verrou/core/drivers/redis");

function verrouOn(connection) {
  const stores = { redis: { driver: redisStore({ connection }) } };
  return new Verrou({ default: "redis", stores });
}

async function take(verrou, resource, ttlMs) {
  const lock = verrou.createLock(resource, ttlMs);
  if (!(await lock.acquire())) throw new Error("verrou gave up");
  return lock;
}

/** Extended at a third of its ttl, a timer of ours. */
export async function open({ url, ttlMs }) {
  const verrou = verrouOn(await openRedis(url));
  return {
    acquire: async (resource) => {
      const lock = await take(verrou, resource, ttlMs);
      // What could not be extended expires, and isExpired() says so.
      setInterval(() => lock.extend().catch(() => undefined), ttlMs / 3);
      return { isHeld: () => !lock.isExpired() };
    },
  };
}

export async function locker({ url, ttlMs }) {
  const connection = await openRedis(url);
  const verrou = verrouOn(connection);
  return {
    lock: async (resource) => {
      const lock = await take(verrou, resource, ttlMs);
      return withGiven(
        () => lock.release(),
        () => lock.getOwner(),
      );
    },
    close: () => connection.disconnect(),
  };
}
