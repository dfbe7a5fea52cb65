// Acquires one resource many times and keeps a book of it: a line when it begins to act, a line when it ends, both
// written under the lease. The book is one file for all workers, opened for appending, one write per line: what it says
// is in the order in which it happened.
import { openSync, writeSync } from "node:fs";
import { connect } from "../../../dist/index.js";
import { nextCommand, settings, tell } from "./kit.mjs";

const book = openSync(settings.book, "a");
const tenure = await connect(`sqlite:${settings.file}`);
const enter = (what, token) =>
  writeSync(book, `${what} ${token} ${process.pid} ${process.hrtime.bigint()}\n`);

tell("ready");
await nextCommand();
for (let turn = 0; turn < settings.turns; turn += 1) {
  const lease = await tenure.acquire("settlement", settings.options);
  enter("begin", lease.check());
  // Gives others the chance to come in, if only they could.
  await new Promise((resolve) => setImmediate(resolve));
  enter("end", lease.check());
  await lease.release();
}
await tenure.close();
tell("done");
process.exit(0);
