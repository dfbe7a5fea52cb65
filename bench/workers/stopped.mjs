// One holder of the trial with stopped holders, through whichever library it is told. The first is stopped between its last
// question "do I still hold it?" and its write, by itself, so that it is that very place every time; the second only writes.

import { onCommand, settings, tell } from "../../test/process/workers/kit.mjs";

const { open } = await import(`../overlap/libraries/${settings.library}.mjs`);
const { acquire } = await open(settings);

async function beStopped(resource) {
  const { isHeld, token } = await acquire(resource);
  tell("wrote", { resource, token });
  const wasHeld = isHeld();
  tell("asked", { resource, isHeld: wasHeld });
  if (!wasHeld) return;
  process.kill(process.pid, "SIGSTOP");
  // Continued. What the library says now would have kept the write back, had it been asked here and not before.
  const stillHeld = isHeld();
  tell("wrote late", { resource, token, isHeld: stillHeld });
}

async function follow(resource) {
  const { token } = await acquire(resource);
  tell("wrote", { resource, token });
}

onCommand((command) => {
  if (command.do === "be stopped") void beStopped(command.resource);
  if (command.do === "follow") void follow(command.resource);
});
tell("ready");
