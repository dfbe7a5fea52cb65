// proper-lockfile: a folder as the lock, its age as the ttl. It does not wait by default; tries by `retries`, every 10 ms.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { requirePeer } from "./peer.mjs";

const { lock } = requirePeer("proper-lockfile");
const retries = { forever: true, minTimeout: 10, maxTimeout: 10, factor: 1 };

const made = new Set();

/** The file that it locks has to exist. Made once: what is timed is the lock. */
function fileOf(folder, resource) {
  const file = join(folder, encodeURIComponent(resource));
  if (!made.has(file)) writeFileSync(file, "", { flag: "a" });
  made.add(file);
  return file;
}

export async function open({ url: folder, ttlMs }) {
  return { acquire: (resource) => take(folder, resource, { ttlMs, retries }) };
}

/** Taken, and touched at half its age limit; its own word for a loss is onCompromised. */
async function take(folder, resource, { ttlMs, ...how }) {
  const file = fileOf(folder, resource);
  let isLost = false;
  const onCompromised = () => {
    isLost = true;
  };
  await lock(file, { stale: Math.max(2_000, ttlMs), onCompromised, ...how });
  return { isHeld: () => !isLost };
}

export async function locker({ url: folder, ttlMs }) {
  return {
    lock: (resource) =>
      lock(fileOf(folder, resource), {
        ...{ stale: Math.max(2_000, ttlMs), retries, onCompromised: () => undefined },
      }),
    close: () => undefined,
  };
}

/** Holds any number. */
export async function holder({ url: folder, ttlMs }) {
  return { hold: (resource) => take(folder, resource, { ttlMs }) };
}
