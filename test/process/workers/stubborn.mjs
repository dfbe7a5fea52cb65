// A command for `tenure run` that ignores SIGTERM and logs every few milliseconds that it is alive.
// With "fork", it starts a second process of this kind through a shell that exits at once. With
// "closed", it closes its standard descriptors.
import { spawn } from "node:child_process";
import { appendFileSync, closeSync } from "node:fs";

const [file, ...traits] = process.argv.slice(2);
const hostMs = () => Number(process.hrtime.bigint()) / 1e6;
const log = (what) => appendFileSync(file, `${what} ${hostMs()} ${process.pid}\n`);

for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"]) process.on(signal, () => log(signal));
log("start");
if (traits.includes("fork")) {
  const self = process.argv[1];
  const startSecond = `"${process.execPath}" "${self}" "${file}" closed &`;
  spawn("/bin/sh", ["-c", startSecond], { stdio: "ignore" });
}
if (traits.includes("closed")) for (const descriptor of [0, 1, 2]) closeSync(descriptor);
setInterval(() => log("beat"), 5);
