// Acquires and releases without a pause for a given time, and tells how often it got what it wanted.
import { connect } from "../../../dist/index.js";
import { hostMs, nextCommand, settings, tell } from "./kit.mjs";

const tenure = await connect(`sqlite:${settings.file}`);
tell("ready");
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
tell("done", { grants, longestMs });
process.exit(0);
