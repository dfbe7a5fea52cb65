// etcd3's Lock. It does not wait, so it is retried every 50 ms. It does not report a loss, but the
// lease inside it emits an event, which we listen to through a private field. Defaults except the
// ttl, which is in whole seconds.
import { requirePeer, retryWhileTaken, withToken } from "./shared.mjs";

const { Etcd3, EtcdLockFailedError } = requirePeer("etcd3");

async function open(url) {
  const client = new Etcd3({ hosts: `http://${new URL(url).host}` });
  await client.get("warm").string();
  return client;
}

function take(client, resource, ttlMs) {
  const isTaken = (error) => error instanceof EtcdLockFailedError;
  return retryWhileTaken(async () => {
    const lock = client.lock(resource).ttl(Math.ceil(ttlMs / 1_000));
    await lock.acquire();
    return lock;
  }, isTaken);
}

export async function holder({ url, ttlMs }) {
  const client = await open(url);
  return {
    acquire: async (resource) => {
      const { lease } = await take(client, resource, ttlMs);
      let isLost = false;
      lease.on("lost", () => {
        isLost = true;
      });
      return { isHeld: () => !isLost && !lease.revoked() };
    },
  };
}

export async function locker({ url, ttlMs }) {
  const client = await open(url);
  return {
    lock: async (resource) => {
      const lock = await take(client, resource, ttlMs);
      return withToken(
        () => lock.release(),
        () => lock.leaseId(),
      );
    },
    close: () => client.close(),
  };
}
