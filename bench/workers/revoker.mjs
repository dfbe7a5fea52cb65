// Holds a lease of Tenure that another process revokes. Orders: `hold` a resource, wait until it is
// `lost`, `revoke` it. The answers are times on the clock that all processes of the host share.

import { connect } from "tenure";
import { hostMs, settings } from "../../test/process/workers/kit.mjs";

const tenure = await connect(settings.url);
await tenure.read("warm");
let lostAt;

async function hold(resource) {
  const { signal } = await tenure.acquire(resource);
  lostAt = new Promise((resolve) => {
    signal.addEventListener("abort", () => resolve(hostMs()), { once: true });
  });
  return "held";
}

async function revoke(resource) {
  const at = hostMs();
  await tenure.revoke(resource);
  return at;
}

process.on("message", async (order) => {
  if (order.hold !== undefined) process.send(await hold(order.hold));
  else if (order.revoke !== undefined) process.send(await revoke(order.revoke));
  else process.send(await lostAt);
});
process.send("ready");
