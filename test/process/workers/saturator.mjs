// Acquires and releases without a pause for a given time. Reports the number of grants, the longest
// wait, and for how long this process was ready to run while other processes had the processors.
import { existsSync, readFileSync } from "node:fs";
import { connect } from "../../../dist/index.js";
import { hostMs, nextCommand, report, settings } from "./kit.mjs";

const tenure = await connect(settings.url);

/** Milliseconds that this process has waited for a processor since it began. 0 if unknown. */
function queuedMs() {
  // Linux: time on the processor, time in the queue for one, in nanoseconds.
  const file = "/proc/self/schedstat";
  return existsSync(file) ? Number(readFileSync(file, "utf8").split(" ")[1]) / 1e6 : 0;
}

report("ready");
await nextCommand();
const queuedBefore = queuedMs();
const until = hostMs() + settings.forMs;
let grants = 0;
let longestMs = 0;
for (let from = hostMs(); from < until; from = hostMs()) {
  const lease = await tenure.acquire(settings.resource, settings.options);
  longestMs = Math.max(longestMs, hostMs() - from);
  grants += 1;
  await lease.release();
}
report("done", { grants, longestMs, queuedMs: queuedMs() - queuedBefore });
process.exit(0);
