// What the adapters of the peers share: their modules, which live in bench/peers, and asking again while the lock is taken.
// Asking again is ours, with a fresh attempt each time, so that the one that succeeds has its whole ttl before it.
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";

const RETRY_MS = 50;

export const requirePeer = createRequire(new URL("../../peers/package.json", import.meta.url));

/** An ioredis client as the peers' own pages make it: default options. */
export async function openRedis(url) {
  const { Redis } = requirePeer("ioredis");
  const client = new Redis(url);
  // Without a listener every error would be printed.
  client.on("error", () => undefined);
  await client.ping();
  return client;
}

/** `attempt` gives what is held, or throws an error that `isTaken` knows. */
export async function untilHeld(attempt, isTaken) {
  for (;;) {
    try {
      return await attempt();
    } catch (error) {
      if (!isTaken(error)) throw error;
    }
    await sleep(RETRY_MS);
  }
}

/** How a lock is given back and, for the comparison of tokens, what its library's interface gives out with the grant. */
export function withGiven(unlock, given) {
  return Object.assign(unlock, { given });
}

/**
 * Holds through a library that runs a routine under the lock, `use(routine)`, and tells it by a signal. Resolves when the
 * routine runs with a signal that has not aborted; the routine goes on until the process ends.
 */
export function holdInside(use) {
  return new Promise((resolve, reject) => {
    use(async (signal) => {
      if (signal.aborted) throw new Error("The lock was over before it began.");
      resolve({ isHeld: () => !signal.aborted });
      await new Promise(() => undefined);
    }).catch(reject);
  });
}
