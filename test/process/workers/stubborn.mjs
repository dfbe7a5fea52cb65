// A command for `tenure run` that cannot be persuaded: it ignores SIGTERM, and writes down every few milliseconds that it is
// still there. With "fork" it closes its descriptors and leaves a second one of its kind behind a double fork.
import { spawn } from "node:child_process";
import { appendFileSync, closeSync } from "node:fs";

const [file, ...wishes] = process.argv.slice(2);
const hostMs = () => Number(process.hrtime.bigint()) / 1e6;
const note = (what) => appendFileSync(file, `${what} ${hostMs()} ${process.pid}\n`);

for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"]) process.on(signal, () => note(signal));
note("start");
if (wishes.includes("fork")) {
  const self = process.argv[1];
  const again = `"${process.execPath}" "${self}" "${file}" closed &`;
  spawn("/bin/sh", ["-c", again], { stdio: "ignore" });
}
if (wishes.includes("closed")) for (const descriptor of [0, 1, 2]) closeSync(descriptor);
setInterval(() => note("beat"), 5);
