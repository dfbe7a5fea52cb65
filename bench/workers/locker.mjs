// One process of the comparison: contends, holds, waits or gives away, through whichever library it is told.

import { setTimeout as sleep } from "node:timers/promises";

const [, , library, url, ttlMs] = process.argv;
const now = () => Number(process.hrtime.bigint()) / 1e6;
const { locker } = await import(`../overlap/libraries/${library}.mjs`);
const settings = { url, ttlMs: Number(ttlMs) };
const { lock } = await locker(settings);

async function contend({ resource, contendMs }) {
  const until = now() + contendMs;
  let pairs = 0;
  while (now() < until) {
    const unlock = await lock(resource);
    await unlock();
    if (now() < until) pairs += 1;
  }
  return pairs;
}

/** So many at once on one lock; each keeps it a moment. How many had their turn. */
async function crowd({ resource, crowd: count, holdMs }) {
  const one = async () => {
    const unlock = await lock(resource);
    await sleep(holdMs);
    await unlock();
  };
  await Promise.all(Array.from({ length: count }, one));
  return count;
}

let unlock;

async function take({ resource }) {
  unlock = await lock(resource);
  return now();
}

/** Waits for all of them at once, each as a program of its own would, through its own client: when each was granted. */
function takeAll(resources) {
  const wait = async (resource) => {
    const one = await locker(settings);
    await one.lock(resource);
    return now();
  };
  return Promise.all(resources.map(wait));
}

/** When it was given away. */
async function free() {
  const at = now();
  await unlock();
  return at;
}

process.on("message", async (order) => {
  if (order.contendMs !== undefined) process.send(await contend(order));
  else if (order.crowd !== undefined) process.send(await crowd(order));
  else if (order.all !== undefined) process.send(await takeAll(order.all));
  else if (order.free) process.send(await free());
  else process.send(await take(order));
});
process.send("ready");
