// @verrou/core on Redis: createLock() and acquire(), which waits by its own tries. Defaults but for the ttl.
import { openRedis, requirePeer } from "./peer.mjs";

const { Verrou } = requirePeer("@verrou/core");
const { redisStore } = requirePeer("@verrou/core/drivers/redis");

export async function locker({ url, ttlMs }) {
  const connection = await openRedis(url);
  const stores = { redis: { driver: redisStore({ connection }) } };
  const verrou = new Verrou({ default: "redis", stores });
  return {
    lock: async (resource) => {
      const lock = verrou.createLock(resource, ttlMs);
      if (!(await lock.acquire())) throw new Error("verrou gave up");
      return () => lock.release();
    },
    close: () => connection.disconnect(),
  };
}
