// Former holders that repeat their request in a loop, whatever the answer is. The order
// { clients, token } starts that many; with 0 clients it stops them. The reply, sent when all have
// started or stopped, is the number of answers since the previous order.

import { Agent, request } from "node:http";
import { settings } from "../../test/process/workers/kit.mjs";

const { port } = settings;
const agent = new Agent({ keepAlive: true, maxSockets: Number.POSITIVE_INFINITY });
let order = { clients: 0, token: 0 };
let loops = [];
let answers = 0;

function put() {
  return new Promise((resolve) => {
    const headers = { "Fencing-Token": `resource="ledger", token=${order.token}` };
    const sent = request({ host: "127.0.0.1", port, agent, method: "PUT", headers }, (response) => {
      response.resume().once("close", resolve);
    });
    sent.once("error", resolve);
    sent.end("x");
  });
}

async function loop() {
  while (order.clients > 0) {
    await put();
    answers += 1;
  }
}

process.on("message", async (given) => {
  order = given;
  if (order.clients === 0) await Promise.all(loops);
  loops = Array.from({ length: order.clients }, loop);
  process.send(answers);
  answers = 0;
});
process.on("disconnect", () => process.exit());
