// redlock 5 beta: `using()`, the auto-extending form that its README shows, with its signal.
// Defaults except the ttl, and one try per attempt.
import { holdInside, openRedis, requirePeer, retryWhileTaken, withToken } from "./shared.mjs";

const { default: Redlock, ExecutionError } = requirePeer("redlock");

function open(client) {
  const redlock = new Redlock([client]);
  // Emitted for every try on a taken lock; without a listener it would be thrown.
  redlock.on("error", () => undefined);
  return redlock;
}

export async function holder({ url, ttlMs }) {
  const redlock = open(await openRedis(url));
  const use = (resource) => (routine) =>
    redlock.using([resource], ttlMs, { retryCount: 0 }, routine);
  const isTaken = (error) => error instanceof ExecutionError;
  return { acquire: (resource) => retryWhileTaken(() => holdInside(use(resource)), isTaken) };
}

/** It retries every 100 to 300 ms; only the number of retries is changed, to unlimited. */
export async function locker({ url, ttlMs }) {
  const client = await openRedis(url);
  const redlock = open(client);
  return {
    lock: async (resource) => {
      const lock = await redlock.acquire([resource], ttlMs, { retryCount: -1 });
      return withToken(
        () => lock.release(),
        () => lock.value,
      );
    },
    close: () => client.disconnect(),
  };
}
