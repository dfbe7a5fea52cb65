// Outlives the process that started it by a moment, to end what that one could not: the channel between them
// closes when it exits, is interrupted, or is killed with SIGKILL, and then every server still registered is
// killed and its folder removed. launch.ts starts one per process and talks with it.
import { rmSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { isRunning, signalTree, startedAt } from "./process-tree.mjs";

const GONE_MAX_MS = 5_000;

/** Folder to the processes that live in it: pid and when it began. */
const watched = new Map();

process.on("message", ({ id, folder, pid, forget }) => {
  if (forget) watched.delete(folder);
  else if (pid === undefined) watched.set(folder, new Map());
  else watched.get(folder)?.set(pid, startedAt(pid));
  process.send({ id });
});

// A terminal's ^C and a service manager's stop are for the tests; the channel tells when they are over.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => undefined);

process.on("disconnect", async () => {
  const killed = [];
  for (const processes of watched.values()) {
    for (const [pid, began] of processes) {
      if (isRunning(pid) && startedAt(pid) === began) killed.push(...signalTree(pid, "SIGKILL"));
    }
  }
  const giveUpAt = performance.now() + GONE_MAX_MS;
  while (killed.some(isRunning) && performance.now() < giveUpAt) await sleep(10);
  for (const folder of watched.keys()) rmSync(folder, { recursive: true, force: true });
  process.exit();
});
