// A machine with a scheduled job, told by its parent which fire is due. The job runs until it is told to end.
import { connect } from "../../../dist/index.js";
import { factsOf, onCommand, settings, tell } from "./kit.mjs";

const { url, name, timing } = settings;
const tenure = await connect(url, { holderId: name, defaults: timing, keepProcessAlive: true });
let finish = () => undefined;

async function fire(number, options) {
  try {
    const result = await tenure.once("job", options, async (lease) => {
      tell("runs", { number, token: lease.check() });
      await new Promise((resolve) => {
        finish = resolve;
      });
    });
    tell("fired", { number, ...result });
  } catch (error) {
    tell("failed", { number, error: factsOf(error) });
  }
}

onCommand(({ number, finish: ends, ...options }) => {
  if (ends) finish();
  else void fire(number, options);
});
tell("started");
