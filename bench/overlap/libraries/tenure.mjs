// Tenure itself, on any store. It acts in doubt, too, up to the last moment that its own deadline allows: what is measured
// is the deadline, and nothing softer. By default it would stop earlier, with the first renewal that fails.
import { connect } from "../../../dist/index.js";
import { withGiven } from "./peer.mjs";

function isHeld(lease) {
  try {
    return lease.check() === lease.token;
  } catch {
    return false;
  }
}

export async function open({ url, timing }) {
  const tenure = await connect(url, { defaults: { ...timing, whileInDoubt: "act" } });
  // The connection is there before the trial begins, as with every library here.
  await tenure.read("warm");
  return {
    acquire: async (resource) => {
      const lease = await tenure.acquire(resource, { waitMs: 60_000 });
      return { isHeld: () => isHeld(lease), token: lease.token };
    },
  };
}

/** Holds any number through one client. */
export async function holder({ url, ttlMs }) {
  const tenure = await connect(url, { defaults: { ttlMs } });
  return {
    hold: async (resource) => {
      const lease = await tenure.acquire(resource);
      return { isHeld: () => isHeld(lease) };
    },
  };
}

/** Takes locks and gives them back, for the comparison. */
export async function locker({ url, ttlMs }) {
  const tenure = await connect(url, { defaults: { ttlMs } });
  return {
    lock: async (resource) => {
      const lease = await tenure.acquire(resource, { waitMs: 120_000 });
      return withGiven(
        () => lease.release(),
        () => lease.token,
      );
    },
    close: () => tenure.close(),
  };
}
