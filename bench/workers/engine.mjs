// One process of the benchmarks of engines: takes turns, holds, waits, or holds thousands and tells what that cost.

import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "tenure";

const [, , name, store] = process.argv;
const now = () => Number(process.hrtime.bigint()) / 1e6;
const tenure = await connect(store, { holderId: name });
let stillHeld = () => 0;

process.on("message", async (order) => {
  if (order.turns !== undefined) process.send(await takeTurns(order.turns));
  else if (order.hold !== undefined) {
    await tenure.acquire(order.hold, { ttlMs: order.ttlMs });
    process.send("held");
  } else if (order.wait !== undefined) {
    await tenure.acquire(order.wait, { ttlMs: order.ttlMs, waitMs: 60_000 });
    process.send(now());
  } else if (order.take !== undefined) {
    stillHeld = order.peer === undefined ? await take(order.take) : await takeOf(order);
    process.send("taken");
  } else process.send(await keep(order.holdMs));
});

async function takeTurns(count) {
  const turns = [];
  for (let turn = 0; turn < count; turn += 1) {
    const lease = await tenure.acquire("handover", { waitMs: 60_000 });
    const acquiredAt = now();
    // Long enough that the other one is surely waiting.
    await sleep(10 + Math.random() * 10);
    const releasedAt = now();
    await lease.release();
    turns.push({ acquiredAt, releasedAt, order: acquiredAt });
  }
  return turns;
}

/** The function that counts how many of them are lost. */
async function take(count) {
  const leases = [];
  while (leases.length < count) {
    const part = Array.from({ length: Math.min(500, count - leases.length) }, (_, index) =>
      tenure.acquire(`many/${leases.length + index}`, { ttlMs: 10_000 }),
    );
    leases.push(...(await Promise.all(part)));
  }
  return () => leases.filter((lease) => !isHeld(lease)).length;
}

function isHeld(lease) {
  try {
    return lease.check() === lease.token;
  } catch {
    return false;
  }
}

async function takeOf({ take: count, peer }) {
  if (peer !== "redis-semaphore") throw new Error(`no such peer: ${peer}`);
  const { createRequire } = await import("node:module");
  const load = createRequire(new URL("../peers/package.json", import.meta.url));
  const client = new (load("ioredis").Redis)(store.replace(/\?.*/, ""));
  // It refreshes as often as its defaults say, as in the comparison with the peers.
  const options = { lockTimeout: 10_000 };
  const mutexes = [];
  for (let index = 0; index < count; index += 1) {
    const mutex = new (load("redis-semaphore").Mutex)(client, `many/${index}`, options);
    mutexes.push(mutex);
    if (index % 500 === 499)
      await Promise.all(mutexes.slice(index - 499).map((one) => one.acquire()));
  }
  return () => mutexes.filter((mutex) => !mutex.isAcquired).length;
}

async function keep(holdMs) {
  const before = process.cpuUsage();
  await sleep(holdMs);
  const { user, system } = process.cpuUsage(before);
  return { cpuMs: (user + system) / 1000, lost: stillHeld() };
}
