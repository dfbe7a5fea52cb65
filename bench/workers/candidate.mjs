// One candidate of the rolling restart: tells when it leads, and on demand ends as a deployed process does, then comes back
// with new connections and a new session. Of another library than Tenure its lock is the leadership.

import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "tenure";

const [, , name, store, resource, library, backMs] = process.argv;
const TTL_MS = 10_000;
const now = () => Number(process.hrtime.bigint()) / 1e6;
let leave;

async function enter() {
  leave = library === "tenure" ? await campaign() : await queueUp();
  process.send({ what: "entered" });
}

async function campaign() {
  const tenure = await connect(store, { holderId: name });
  let endedAt = 0;
  const lead = async (lease, stopping) => {
    process.send({ what: "leads", at: now(), term: String(lease.token) });
    await new Promise((resolve) => stopping.addEventListener("abort", resolve, { once: true }));
    endedAt = now();
  };
  tenure.election(resource, { lead }).start();
  return async () => {
    await tenure.close();
    return endedAt;
  };
}

async function queueUp() {
  const { locker } = await import(`../overlap/libraries/${library}.mjs`);
  const { lock, close } = await locker({ url: store, ttlMs: TTL_MS });
  const leading = lock(resource).then((unlock) => {
    const at = now();
    // It has no token; later terms have later times.
    process.send({ what: "leads", at, term: String(Math.round(at * 1_000)) });
    return unlock;
  });
  return async () => {
    const unlock = await leading;
    const endedAt = now();
    await unlock();
    await close();
    return endedAt;
  };
}

process.on("message", async () => {
  process.send({ what: "ended", at: await leave() });
  // As long as a program takes to start: a library without a queue would otherwise succeed itself.
  await sleep(Number(backMs));
  await enter();
});
await enter();
