// One process of the overlap trial. After its grant it asks its library every millisecond whether
// it still holds the lock, and acts if so. It reports times on the clock that all processes of the
// host share. A library that ends the process has also notified its holder.
import { hostMs, onCommand, report, settings } from "../../test/process/workers/kit.mjs";

const { holder } = await import(`../peers/libraries/${settings.library}.mjs`);
const { acquire } = await holder(settings);

let lastActAt = null;
let acts = 0;
let knows = false;

function finish(by) {
  if (knows) return;
  knows = true;
  report("knows", { by, lastActAt, acts });
}

async function compete() {
  const held = await acquire(settings.resource);
  report("granted");
  // It continues after the first no, in case the library says yes again later.
  setInterval(() => {
    if (!held.isHeld()) {
      finish("still held?");
      return;
    }
    // Read after the answer: this is when the act happens.
    lastActAt = hostMs();
    acts += 1;
  }, 1);
}

process.on("exit", () => finish("exit"));
onCommand((command) => {
  if (command.do === "compete") void compete();
  if (command.do === "report") report("report", { lastActAt, acts });
});
report("ready");
