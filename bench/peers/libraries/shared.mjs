// What the files in this folder share. Each of them uses one library and exports two functions.
// `holder({ url, ttlMs })` keeps locks by the library's own renewal: acquire(resource) waits for a
// lock and resolves with { isHeld }. `locker({ url, ttlMs })` takes and frees locks: lock(resource)
// waits as the library does, and resolves with a function that frees the lock. If a library has
// another form for a critical section, it is section(resource, onLocked).
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";

const RETRY_MS = 50;

/** Loads a module from bench/peers. */
export const requirePeer = createRequire(new URL("../package.json", import.meta.url));

/** An ioredis client with default options, as the peers' own documentation creates it. */
export async function openRedis(url) {
  const { Redis } = requirePeer("ioredis");
  const client = new Redis(url);
  // Without a listener ioredis prints every error.
  client.on("error", () => undefined);
  await client.ping();
  return client;
}

/**
 * Retries `attempt` while it fails with an error that `isTaken` recognises. Each attempt is a new
 * one, so the one that succeeds has its whole ttl left.
 */
export async function retryWhileTaken(attempt, isTaken) {
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (!isTaken(error)) throw error;
    }
    await sleep(RETRY_MS);
  }
}

/** Adds to `unlock` a function that reads what the library's interface returns with the grant. */
export function withToken(unlock, token) {
  return Object.assign(unlock, { token });
}

/**
 * Holds through a library that runs a routine under the lock and notifies it by a signal. Resolves
 * when the routine runs with a signal that has not aborted; the routine continues until the process
 * ends.
 */
export function holdInside(use) {
  return new Promise((resolve, reject) => {
    use(async (signal) => {
      if (signal.aborted) throw new Error("The lock expired before the routine started.");
      resolve({ isHeld: () => !signal.aborted });
      await new Promise(() => undefined);
    }).catch(reject);
  });
}
