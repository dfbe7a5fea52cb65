// redlock 5 beta: `using()`, the auto-extending form that its README shows, with its signal. Defaults but for the ttl, and
// one try per attempt.
import { holdInside, openRedis, requirePeer, untilHeld, withGiven } from "./peer.mjs";

const { default: Redlock, ExecutionError } = requirePeer("redlock");

export async function open({ url, ttlMs }) {
  const { hold } = await holder({ url, ttlMs });
  const isTaken = (error) => error instanceof ExecutionError;
  return { acquire: (resource) => untilHeld(() => hold(resource), isTaken) };
}

/** Holds any number through one client, and extends each. */
export async function holder({ url, ttlMs }) {
  const redlock = new Redlock([await openRedis(url)]);
  // Emitted for every try on a taken lock; without a listener it would be thrown.
  redlock.on("error", () => undefined);
  const use = (resource) => (routine) =>
    redlock.using([resource], ttlMs, { retryCount: 0 }, routine);
  return { hold: (resource) => holdInside(use(resource)) };
}

/** Its own way of waiting: a try every 200 ms, 100 more or less by chance; only the number of tries is without end. */
export async function locker({ url, ttlMs }) {
  const client = await openRedis(url);
  const redlock = new Redlock([client]);
  redlock.on("error", () => undefined);
  return {
    lock: async (resource) => {
      const lock = await redlock.acquire([resource], ttlMs, { retryCount: -1 });
      return withGiven(
        () => lock.release(),
        () => lock.value,
      );
    },
    close: () => client.disconnect(),
  };
}
