// proper-lockfile: a folder is the lock, and its age is the ttl. It touches the folder at half of
// that age, and reports a loss through onCompromised. It does not wait by default; with `retries`
// it tries every 10 ms.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { requirePeer } from "./shared.mjs";

const { lock } = requirePeer("proper-lockfile");
const retries = { forever: true, minTimeout: 10, maxTimeout: 10, factor: 1 };
const created = new Set();

function take(folder, resource, { ttlMs, onCompromised }) {
  const file = join(folder, encodeURIComponent(resource));
  // The file has to exist. It is created once, because the lock is what we time.
  if (!created.has(file)) writeFileSync(file, "", { flag: "a" });
  created.add(file);
  return lock(file, { stale: Math.max(2_000, ttlMs), retries, onCompromised });
}

export async function holder({ url: folder, ttlMs }) {
  return {
    acquire: async (resource) => {
      let isLost = false;
      const onCompromised = () => {
        isLost = true;
      };
      await take(folder, resource, { ttlMs, onCompromised });
      return { isHeld: () => !isLost };
    },
  };
}

export async function locker({ url: folder, ttlMs }) {
  const options = { ttlMs, onCompromised: () => undefined };
  return { lock: (resource) => take(folder, resource, options), close: () => undefined };
}
