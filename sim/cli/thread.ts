// The code of a simulation thread. threads.ts starts it and sends it ranges of seeds; the thread
// runs each range and sends back the summary.

import { parentPort } from "node:worker_threads";
import { simHost } from "../host/sim-host.ts";
import { runSwarm } from "../swarm.ts";
import type { Part } from "./threads.ts";

parentPort?.on("message", (part: Part) => {
  // An unhandled rejection ends the thread, which threads.ts reports.
  void runSwarm({ ...part, host: simHost }).then((summary) => parentPort?.postMessage(summary));
});
