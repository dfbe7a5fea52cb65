// Acquires and releases without a pause for a given time, and reports the number of grants and the
// longest wait.
import { connect } from "../../../dist/index.js";
import { hostMs, nextCommand, report, settings } from "./kit.mjs";

const tenure = await connect(`sqlite:${settings.file}`);
report("ready");
await nextCommand();
const until = hostMs() + settings.forMs;
let grants = 0;
let longestMs = 0;
for (let from = hostMs(); from < until; from = hostMs()) {
  const lease = await tenure.acquire(settings.resource, settings.options);
  longestMs = Math.max(longestMs, hostMs() - from);
  grants += 1;
  await lease.release();
}
report("done", { grants, longestMs });
process.exit(0);
