// Tenure on any store. With `timing` it acts in doubt, up to its own deadline, because the overlap
// trial measures that deadline. By default it would stop earlier, when the first renewal fails.
import { connect } from "../../../dist/index.js";
import { withToken } from "./shared.mjs";

function isHeld(lease) {
  try {
    return lease.check() === lease.token;
  } catch {
    return false;
  }
}

export async function holder({ url, ttlMs, timing }) {
  const defaults = timing === undefined ? { ttlMs } : { ...timing, whileInDoubt: "act" };
  const tenure = await connect(url, { defaults });
  // As with the other libraries, the connection is open before the trial begins.
  await tenure.read("warm");
  return {
    acquire: async (resource) => {
      const lease = await tenure.acquire(resource, { waitMs: 60_000 });
      return { isHeld: () => isHeld(lease), token: lease.token };
    },
  };
}

export async function locker({ url, ttlMs }) {
  const tenure = await connect(url, { defaults: { ttlMs } });
  return {
    lock: async (resource) => {
      const lease = await tenure.acquire(resource, { waitMs: 120_000 });
      return withToken(
        () => lease.release(),
        () => lease.token,
      );
    },
    section: (resource, onLocked) => tenure.withLease(resource, { waitMs: 120_000 }, onLocked),
    close: () => tenure.close(),
  };
}
