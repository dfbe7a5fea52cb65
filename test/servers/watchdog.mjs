// Outlives the process that started it by a moment, to end what that one could not: the channel between them
// closes when it exits, is interrupted, or is killed with SIGKILL, and then every server still registered is
// killed and its folder removed. launch.ts starts one per process and talks with it.
import { rmSync } from "node:fs";
import { isRunning, killTree, startedAt } from "./process-tree.mjs";

/** Folder to the processes that live in it: pid and when it began. */
const watched = new Map();

process.on("message", ({ id, folder, pid, forget }) => {
  if (forget) watched.delete(folder);
  else if (pid === undefined) watched.set(folder, new Map());
  else watched.get(folder)?.set(pid, startedAt(pid));
  // The other side may be gone by now: that is no fault, and what to do then comes below.
  process.send({ id }, () => undefined);
});

// A terminal's ^C and a service manager's stop are for the tests; the channel tells when they are over.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => undefined);

process.on("disconnect", async () => {
  await Promise.allSettled([...watched.values()].flatMap((processes) => [...processes].map(end)));
  for (const folder of watched.keys()) remove(folder);
  process.exit();
});

async function end([pid, began]) {
  if (isRunning(pid) && startedAt(pid) === began) await killTree(pid);
}

function remove(folder) {
  try {
    rmSync(folder, { recursive: true, force: true, maxRetries: 5, retryDelay: 50 });
  } catch {
    // There is nobody left to tell, and other folders to remove.
  }
}
