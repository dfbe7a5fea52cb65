// One process of the trial with stopped holders. The first holder stops itself between its last
// question "do I still hold it?" and its write, so that it is stopped in the same place every time.
// The second one only takes the lock and writes.

import { onCommand, report, settings } from "../../test/process/workers/kit.mjs";

const { holder } = await import(`../peers/libraries/${settings.library}.mjs`);
const { acquire } = await holder(settings);

async function stopAndWrite(resource) {
  const { isHeld, token } = await acquire(resource);
  report("wrote", { resource, token });
  const wasHeld = isHeld();
  report("asked", { resource, isHeld: wasHeld });
  if (!wasHeld) return;
  process.kill(process.pid, "SIGSTOP");
  // Continued. A library that says no here would have prevented the write if it were asked now.
  const stillHeld = isHeld();
  report("wrote late", { resource, token, isHeld: stillHeld });
}

async function follow(resource) {
  const { token } = await acquire(resource);
  report("wrote", { resource, token });
}

onCommand((command) => {
  if (command.do === "stop") void stopAndWrite(command.resource);
  if (command.do === "follow") void follow(command.resource);
});
report("ready");
