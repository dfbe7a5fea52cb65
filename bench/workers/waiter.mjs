// One process of the handover benchmark. Takes turns, or holds, or waits idly and tells what that cost.

import { setTimeout as sleep } from "node:timers/promises";
import { connect } from "tenure";

const [, , name, store] = process.argv;
const tenure = await connect(store, { holderId: name });
const now = () => Number(process.hrtime.bigint()) / 1e6;

process.on("message", async (order) => {
  if (order.hold) {
    await tenure.acquire("bench");
    process.send("held");
  } else if (order.turns) {
    process.send(await takeTurns(order.turns));
  } else {
    process.send(await waitIdly(order.idleMs));
  }
});

async function takeTurns(count) {
  const turns = [];
  for (let turn = 0; turn < count; turn += 1) {
    const lease = await tenure.acquire("bench", { waitMs: 60_000 });
    const acquiredAt = now();
    // Long enough that the other one is surely waiting, and at no fixed phase to its looks.
    await sleep(10 + Math.random() * 20);
    const releasedAt = now();
    await lease.release();
    turns.push({ acquiredAt, releasedAt, token: Number(lease.token) });
  }
  return turns;
}

async function waitIdly(ms) {
  tenure.acquire("bench", { waitMs: 60_000 }).catch(() => undefined);
  // Starting up is not waiting.
  await sleep(1_000);
  const before = process.cpuUsage();
  const start = performance.now();
  await sleep(ms);
  const used = process.cpuUsage(before);
  return (used.user + used.system) / 1000 / (performance.now() - start);
}
