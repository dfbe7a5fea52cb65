// Acquires one resource many times. While it holds the lease, it writes one line to a log when it
// begins to act and one when it ends. All workers append to the same log, with one write per line,
// so the lines are in the order in which the events happened.
import { openSync, writeSync } from "node:fs";
import { connect } from "../../../dist/index.js";
import { nextCommand, report, settings } from "./kit.mjs";

const log = openSync(settings.log, "a");
const tenure = await connect(`sqlite:${settings.file}`);
const append = (what, token) =>
  writeSync(log, `${what} ${token} ${process.pid} ${process.hrtime.bigint()}\n`);

report("ready");
await nextCommand();
for (let turn = 0; turn < settings.turns; turn += 1) {
  const lease = await tenure.acquire("settlement", settings.options);
  append("begin", lease.check());
  // Gives the other processes time to write, in case mutual exclusion is broken.
  await new Promise((resolve) => setImmediate(resolve));
  append("end", lease.check());
  await lease.release();
}
await tenure.close();
report("done");
process.exit(0);
