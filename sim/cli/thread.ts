// What runs in each thread of a long simulation: a part of the seeds at a time, as it is told.

import { parentPort } from "node:worker_threads";
import { simHost } from "../host/sim-host.ts";
import { runSwarm } from "../swarm.ts";
import type { Part } from "./threads.ts";

parentPort?.on("message", (part: Part) => {
  // What it rejects with ends the thread, and the other side hears of that.
  void runSwarm({ ...part, host: simHost }).then((summary) => parentPort?.postMessage(summary));
});
