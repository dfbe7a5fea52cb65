// A machine with a scheduled job. The parent commands it to run a scheduled time, and later to
// finish the run.
import { connect } from "../../../dist/index.js";
import { describeError, onCommand, report, settings } from "./kit.mjs";

const { url, name, timing } = settings;
const tenure = await connect(url, { holderId: name, defaults: timing, keepProcessAlive: true });
let finish = () => undefined;

async function runOnce(number, options) {
  try {
    const result = await tenure.once("job", options, async (lease) => {
      report("runs", { number, token: lease.check() });
      await new Promise((resolve) => {
        finish = resolve;
      });
    });
    report("returned", { number, ...result });
  } catch (error) {
    report("failed", { number, error: describeError(error) });
  }
}

onCommand(({ number, finish: mustFinish, ...options }) => {
  if (mustFinish) finish();
  else void runOnce(number, options);
});
report("started");
