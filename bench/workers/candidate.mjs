// One candidate of the rolling restart: tells when it leads, and on demand ends as a deployed process does, then comes back
// with new connections and a new session.

import { connect } from "tenure";

const [, , name, store] = process.argv;
const now = () => Number(process.hrtime.bigint()) / 1e6;
let tenure;
let endedAt = 0;

async function enter() {
  tenure = await connect(store, { holderId: name });
  const lead = async (lease, stopping) => {
    process.send({ what: "leads", at: now(), term: String(lease.token) });
    await new Promise((resolve) => stopping.addEventListener("abort", resolve, { once: true }));
    endedAt = now();
  };
  tenure.election("leader", { lead }).start();
  process.send({ what: "entered" });
}

process.on("message", async () => {
  await tenure.close();
  process.send({ what: "ended", at: endedAt });
  await enter();
});
await enter();
