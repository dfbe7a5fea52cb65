// Ends the servers of a process that could not end them itself. launch.ts starts one watchdog per
// process and registers servers and folders with it. When that process exits for any reason, even
// by SIGKILL, the channel between the two closes. The watchdog then kills every registered server,
// removes its folder, and exits.
import { rmSync } from "node:fs";
import { isRunning, killTree, startedAt } from "./process-tree.mjs";

/** By folder: the processes that use it, as pid and start time. */
const watched = new Map();

process.on("message", ({ id, folder, pid, forget }) => {
  if (forget) watched.delete(folder);
  else if (pid === undefined) watched.set(folder, new Map());
  else watched.get(folder)?.set(pid, startedAt(pid));
  // The other process may have exited by now; the "disconnect" handler below deals with that.
  process.send({ id }, () => undefined);
});

// SIGINT from a terminal and SIGTERM from a service manager are meant for the tests. The watchdog
// ends when the channel closes.
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
    // No process is left to report this to. Continue with the other folders.
  }
}
