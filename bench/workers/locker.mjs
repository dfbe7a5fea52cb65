// One process of the comparison: takes turns, contends, holds or waits, through whichever library it is told.

import { setTimeout as sleep } from "node:timers/promises";

const [, , library, url, ttlMs] = process.argv;
const now = () => Number(process.hrtime.bigint()) / 1e6;
const { locker } = await import(`../overlap/libraries/${library}.mjs`);
const { lock } = await locker({ url, ttlMs: Number(ttlMs) });

async function takeTurns({ resource, turns }) {
  const taken = [];
  for (let turn = 0; turn < turns; turn += 1) {
    const unlock = await lock(resource);
    const acquiredAt = now();
    // Long enough that the other one is surely waiting.
    await sleep(10 + Math.random() * 10);
    const releasedAt = now();
    await unlock();
    taken.push({ acquiredAt, releasedAt });
  }
  return taken;
}

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

async function free() {
  await unlock();
  return now();
}

process.on("message", async (order) => {
  if (order.turns !== undefined) process.send(await takeTurns(order));
  else if (order.contendMs !== undefined) process.send(await contend(order));
  else if (order.crowd !== undefined) process.send(await crowd(order));
  else if (order.free) process.send(await free());
  else process.send(await take(order));
});
process.send("ready");
