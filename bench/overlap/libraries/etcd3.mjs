// etcd3's Lock. It tells its user nothing of a loss; but the lease inside it does, by an event, and that is listened to
// here, though it takes a private field. Defaults but for the ttl, in whole seconds.
import { requirePeer, untilHeld, withGiven } from "./peer.mjs";

const { Etcd3, EtcdLockFailedError } = requirePeer("etcd3");

export async function open({ url, ttlMs }) {
  const { hold } = await holder({ url, ttlMs });
  const isTaken = (error) => error instanceof EtcdLockFailedError;
  return { acquire: (resource) => untilHeld(() => hold(resource), isTaken) };
}

/** Holds any number through one client; each has a lease of its own. */
export async function holder({ url, ttlMs }) {
  const client = new Etcd3({ hosts: `http://${new URL(url).host}` });
  await client.get("warm").string();
  return {
    hold: async (resource) => {
      const lock = client.lock(resource).ttl(Math.ceil(ttlMs / 1_000));
      await lock.acquire();
      let isLost = false;
      lock.lease.on("lost", () => {
        isLost = true;
      });
      return { isHeld: () => !isLost && !lock.lease.revoked() };
    },
  };
}

/** It does not wait: asked again by us, every 50 ms. */
export async function locker({ url, ttlMs }) {
  const client = new Etcd3({ hosts: `http://${new URL(url).host}` });
  await client.get("warm").string();
  const isTaken = (error) => error instanceof EtcdLockFailedError;
  return {
    lock: (resource) =>
      untilHeld(async () => {
        const lock = client.lock(resource).ttl(Math.ceil(ttlMs / 1_000));
        await lock.acquire();
        return withGiven(
          () => lock.release(),
          () => lock.leaseId(),
        );
      }, isTaken),
    close: () => client.close(),
  };
}
