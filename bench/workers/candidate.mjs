// One candidate of the planned restarts: reports when it leads and, on request, resigns and closes
// as a deployed process does, then comes back with a new session. A library other than Tenure leads
// by its lock.

import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "tenure";
import { hostMs, settings } from "../../test/process/workers/kit.mjs";

const { name, url, resource, library, backMs } = settings;
const TTL_MS = 10_000;
let leave;

async function enter() {
  leave = library === "tenure" ? await campaign() : await queueUp();
  process.send({ event: "entered" });
}

async function campaign() {
  const tenure = await connect(url, { holderId: name });
  let endedAt = 0;
  const lead = async (lease, stopping) => {
    process.send({ event: "leads", at: hostMs(), term: String(lease.token) });
    await new Promise((resolve) => stopping.addEventListener("abort", resolve, { once: true }));
    endedAt = hostMs();
  };
  tenure.election(resource, { lead }).start();
  return async () => {
    await tenure.close();
    return endedAt;
  };
}

async function queueUp() {
  const { locker } = await import(`../peers/libraries/${library}.mjs`);
  const { lock, close } = await locker({ url, ttlMs: TTL_MS });
  const leading = lock(resource).then((unlock) => {
    const at = hostMs();
    // There is no token; later terms have later times.
    process.send({ event: "leads", at, term: String(Math.round(at * 1_000)) });
    return unlock;
  });
  return async () => {
    const unlock = await leading;
    const endedAt = hostMs();
    await unlock();
    await close();
    return endedAt;
  };
}

process.on("message", async () => {
  process.send({ event: "ended", at: await leave() });
  await sleep(backMs);
  await enter();
});
await enter();
