// One process of the comparison that holds thousands of locks through one library, and tells what keeping them costs.

import { setTimeout as sleep } from "node:timers/promises";

const BATCH = 500;
const [, , library, url, ttlMs] = process.argv;
const { holder } = await import(`../overlap/libraries/${library}.mjs`);
const { hold } = await holder({ url, ttlMs: Number(ttlMs) });
const held = [];
// What another process left behind, when it was killed, is still taken.
const nameOf = (index) => `held-${process.pid}-${index}`;

async function take(count) {
  while (held.length < count) {
    const size = Math.min(BATCH, count - held.length);
    const batch = Array.from({ length: size }, (_, index) => hold(nameOf(held.length + index)));
    held.push(...(await Promise.all(batch)));
  }
  return held.length;
}

async function keep(keepMs) {
  const before = process.cpuUsage();
  await sleep(keepMs);
  const { user, system } = process.cpuUsage(before);
  const lost = held.filter(({ isHeld }) => !isHeld()).length;
  const rssMB = process.memoryUsage.rss() / 1e6;
  return { cpuMs: (user + system) / 1_000, rssMB, lost };
}

/** Nanoseconds for one answer. */
function time(count, ask) {
  const begunAt = performance.now();
  let yes = 0;
  for (let call = 0; call < count; call += 1) if (ask()) yes += 1;
  if (yes !== count) throw new Error("it was not held");
  return ((performance.now() - begunAt) * 1e6) / count;
}

process.on("message", async ({ take: count, keepMs, check, clock }) => {
  if (count !== undefined) process.send(await take(count));
  else if (check !== undefined) process.send(time(check, held[0].isHeld));
  else if (clock !== undefined) process.send(time(clock, () => performance.now() > 0));
  else process.send(await keep(keepMs));
});
process.send("ready");
