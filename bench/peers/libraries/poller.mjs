// A lock on Redis as many programs write it by hand: SET NX with a ttl, retried until it succeeds,
// and a script that deletes the key if it still has the same value. A timer extends a held lock.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { openRedis, withToken } from "./shared.mjs";

const RETRY_MS = 50;
const DELETE = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) end
return 0`;
const EXTEND = `if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("pexpire", KEYS[1], ARGV[2]) end
return 0`;

async function open(url) {
  const client = await openRedis(url);
  client.defineCommand("deleteIf", { numberOfKeys: 1, lua: DELETE });
  client.defineCommand("extendIf", { numberOfKeys: 1, lua: EXTEND });
  return client;
}

async function take(client, resource, ttlMs) {
  const value = randomUUID();
  while ((await client.set(resource, value, "PX", ttlMs, "NX")) === null) await sleep(RETRY_MS);
  return value;
}

/** Held until an extension fails. */
export async function holder({ url, ttlMs }) {
  const client = await open(url);
  return {
    acquire: async (resource) => {
      const value = await take(client, resource, ttlMs);
      let isHeld = true;
      const extend = async () => {
        isHeld &&= (await client.extendIf(resource, value, ttlMs).catch(() => 0)) === 1;
      };
      setInterval(extend, ttlMs / 3);
      return { isHeld: () => isHeld };
    },
  };
}

export async function locker({ url, ttlMs }) {
  const client = await open(url);
  return {
    lock: async (resource) => {
      const value = await take(client, resource, ttlMs);
      return withToken(
        () => client.deleteIf(resource, value),
        () => value,
      );
    },
    close: () => client.disconnect(),
  };
}
