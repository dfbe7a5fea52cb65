// redlock-universal: `using()`, which its README recommends, with its signal. Defaults but for the ttl, and one try per
// attempt.
import { holdInside, openRedis, requirePeer, untilHeld, withGiven } from "./peer.mjs";

const { createLock, IoredisAdapter, LockAcquisitionError } = requirePeer("redlock-universal");

export async function open({ url, ttlMs }) {
  const { hold } = await holder({ url, ttlMs });
  const isTaken = (error) => error instanceof LockAcquisitionError;
  return { acquire: (resource) => untilHeld(() => hold(resource), isTaken) };
}

/** Holds any number through one client, and extends each. */
export async function holder({ url, ttlMs }) {
  const adapter = new IoredisAdapter(await openRedis(url));
  return {
    hold: (resource) => {
      const lock = createLock({ adapter, key: resource, ttl: ttlMs, retryAttempts: 0 });
      return holdInside((routine) => lock.using(routine));
    },
  };
}

/** Its own way of waiting; only the number of tries is advanced. */
export async function locker({ url, ttlMs }) {
  const client = await openRedis(url);
  const adapter = new IoredisAdapter(client);
  return {
    lock: async (resource) => {
      const lock = createLock({ adapter, key: resource, ttl: ttlMs, retryAttempts: 10_000 });
      const handle = await lock.acquire();
      return withGiven(
        () => lock.release(handle),
        () => handle.value,
      );
    },
    close: () => client.disconnect(),
  };
}
