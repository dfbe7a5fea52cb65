// One contestant of the overlap test, a process of its own: takes the lock through its library when told, and from then on
// asks the library every millisecond whether it still holds, and acts if so. What it did is told with the host's shared
// clock. A library that ends the process has told it, too.
import { hostMs, onCommand, settings, tell } from "../../test/process/workers/kit.mjs";

const { open } = await import(`./libraries/${settings.library}.mjs`);
const library = await open(settings);

let lastActAt = null;
let acts = 0;
let knows = false;

function finish(by) {
  if (knows) return;
  knows = true;
  tell("knows", { by, lastActAt, acts });
}

async function compete() {
  const held = await library.acquire(settings.resource);
  tell("granted");
  // It goes on behind the first no: a library that says yes again later is taken at its word.
  setInterval(() => {
    if (!held.isHeld()) {
      finish("still held?");
      return;
    }
    // Behind the question: that is when the act happens.
    lastActAt = hostMs();
    acts += 1;
  }, 1);
}

process.on("exit", () => finish("exit"));
onCommand((command) => {
  if (command.do === "compete") void compete();
  if (command.do === "report") tell("report", { lastActAt, acts });
});
tell("ready");
