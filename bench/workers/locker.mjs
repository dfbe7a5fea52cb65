// Takes and frees locks through one library. Orders: `lock` and `unlock` one lock, `lockEach` waits
// for several at once, `contend` takes and frees one in a loop, `queue` waits for one many times
// over.

import { setTimeout as sleep } from "node:timers/promises";
import { hostMs, settings } from "../../test/process/workers/kit.mjs";

const { locker } = await import(`../peers/libraries/${settings.library}.mjs`);
const { lock, section = lockAndUnlock } = await locker(settings);
const unlocks = new Map();

/** One critical section; `onLocked` is called inside it. */
async function lockAndUnlock(resource, onLocked) {
  const unlock = await lock(resource);
  onLocked();
  await unlock();
}

async function take(resource) {
  unlocks.set(resource, await lock(resource));
  return hostMs();
}

async function free(resource) {
  const at = hostMs();
  await unlocks.get(resource)();
  return at;
}

/** Through a client for each, as separate programs would; returns when each was granted. */
function takeEach(resources) {
  const wait = async (resource) => {
    const other = await locker(settings);
    await other.lock(resource);
    return hostMs();
  };
  return Promise.all(resources.map(wait));
}

async function contend({ contend: resource, contendMs }) {
  const until = hostMs() + contendMs;
  let [locks, taken, longestMs] = [0, 0, 0];
  for (let now = hostMs(); now < until; ) {
    await section(resource, () => {
      longestMs = Math.max(longestMs, hostMs() - now);
    });
    taken += 1;
    now = hostMs();
    if (now < until) locks += 1;
  }
  return { locks, taken, longestMs };
}

/** Also measures its own CPU share in a window in which all of them only wait. */
async function queue({ queue: resource, count, holdMs, window }) {
  const one = async () => {
    const unlock = await lock(resource);
    await sleep(holdMs);
    await unlock();
  };
  const [cpuShare] = await Promise.all([
    measureCpu(window),
    ...Array.from({ length: count }, () => one()),
  ]);
  return { turns: count, cpuShare };
}

async function measureCpu({ afterMs, forMs }) {
  await sleep(afterMs);
  const [before, startedAt] = [process.cpuUsage(), performance.now()];
  await sleep(forMs);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1_000 / (performance.now() - startedAt);
}

process.on("message", async (order) => {
  if (order.lock !== undefined) process.send(await take(order.lock));
  else if (order.unlock !== undefined) process.send(await free(order.unlock));
  else if (order.lockEach !== undefined) process.send(await takeEach(order.lockEach));
  else if (order.contend !== undefined) process.send(await contend(order));
  else process.send(await queue(order));
});
process.send("ready");
