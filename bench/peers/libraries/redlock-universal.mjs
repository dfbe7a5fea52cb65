// redlock-universal: `using()`, which its README recommends, with its signal. Defaults except the
// ttl, and one try per attempt.
import { holdInside, openRedis, requirePeer, retryWhileTaken, withToken } from "./shared.mjs";

const { createLock, IoredisAdapter, LockAcquisitionError } = requirePeer("redlock-universal");

export async function holder({ url, ttlMs }) {
  const adapter = new IoredisAdapter(await openRedis(url));
  const hold = (resource) => {
    const lock = createLock({ adapter, key: resource, ttl: ttlMs, retryAttempts: 0 });
    return holdInside((routine) => lock.using(routine));
  };
  const isTaken = (error) => error instanceof LockAcquisitionError;
  return { acquire: (resource) => retryWhileTaken(() => hold(resource), isTaken) };
}

/** It waits by itself; only the number of retries is raised. */
export async function locker({ url, ttlMs }) {
  const client = await openRedis(url);
  const adapter = new IoredisAdapter(client);
  return {
    lock: async (resource) => {
      const lock = createLock({ adapter, key: resource, ttl: ttlMs, retryAttempts: 10_000 });
      const handle = await lock.acquire();
      return withToken(
        () => lock.release(handle),
        () => handle.value,
      );
    },
    close: () => client.disconnect(),
  };
}
