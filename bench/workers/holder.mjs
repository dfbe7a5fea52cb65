// Holds locks through one library until it is killed, and reports what that costs. Orders: `hold`
// takes the named locks, `holdMany` takes a number of them, `keepMs` measures while they are kept,
// `check` and `clock` time a question to the library and a reading of the clock.

import { setTimeout as sleep } from "node:timers/promises";
import { hostMs, settings } from "../../test/process/workers/kit.mjs";

const BATCH = 500;
const { holder } = await import(`../peers/libraries/${settings.library}.mjs`);
const { acquire } = await holder(settings);
const held = [];

async function hold(resources) {
  for (let start = 0; start < resources.length; start += BATCH)
    held.push(...(await Promise.all(resources.slice(start, start + BATCH).map(acquire))));
  return hostMs();
}

/**
 * Returns the heap per lock. The first batch also pays for session and code, so it is not counted.
 */
async function holdMany(count) {
  const resources = Array.from({ length: count }, (_, index) => `many-${process.pid}-${index}`);
  await hold(resources.slice(0, BATCH));
  await sleep(200);
  const before = usedHeap();
  await hold(resources.slice(BATCH));
  await sleep(200);
  return (usedHeap() - before) / (count - BATCH);
}

async function keep(keepMs) {
  const before = process.cpuUsage();
  await sleep(keepMs);
  const { user, system } = process.cpuUsage(before);
  const lost = held.filter(({ isHeld }) => !isHeld()).length;
  return { cpuMs: (user + system) / 1_000, rssMB: process.memoryUsage.rss() / 1e6, lost };
}

/** Nanoseconds per call. */
function time(calls, ask) {
  const startedAt = performance.now();
  let yes = 0;
  for (let call = 0; call < calls; call += 1) if (ask()) yes += 1;
  if (yes !== calls) throw new Error("the lock was not held");
  return ((performance.now() - startedAt) * 1e6) / calls;
}

/** Few enough calls that no collection runs; the smallest of several tries has no other garbage. */
function bytesPerCall(ask) {
  const calls = 50_000;
  const tries = Array.from({ length: 7 }, () => {
    const before = usedHeap();
    for (let call = 0; call < calls; call += 1) ask();
    return (process.memoryUsage().heapUsed - before) / calls;
  });
  return Math.max(0, Math.min(...tries));
}

function usedHeap() {
  globalThis.gc();
  globalThis.gc();
  return process.memoryUsage().heapUsed;
}

function check(calls) {
  const [{ isHeld }] = held;
  // Each reading of a clock is a number on the heap.
  const clocks = bytesPerCall(() => performance.now() < 0) + bytesPerCall(() => Date.now() < 0);
  return { time: time(calls, isHeld), allocated: Math.max(0, bytesPerCall(isHeld) - clocks) };
}

process.on("message", async (order) => {
  if (order.hold !== undefined) process.send(await hold(order.hold));
  else if (order.holdMany !== undefined) process.send(await holdMany(order.holdMany));
  else if (order.keepMs !== undefined) process.send(await keep(order.keepMs));
  else if (order.check !== undefined) process.send(check(order.check));
  else process.send({ time: time(order.clock, () => performance.now() > 0) });
});
process.send("ready");
