// A candidate in an election, written as a deployed process would be. It leads until the library
// asks it to stop, and it ends on SIGTERM.
import { connect, onShutdown } from "../../../dist/index.js";
import { describeError, hostMs, onCommand, report, settings } from "./kit.mjs";

const { url, timing, graceMs = 10_000, warmMs = 0, lead = "polite", drainForMs = 20 } = settings;
const { rank } = settings;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const tenure = await connect(url, { holderId: settings.name, defaults: timing });
onShutdown(tenure, { graceMs, before: () => report("shutting down") });

const leadFunctions = {
  /** Finishes its current work when `stopping` aborts, and returns. */
  polite: async (lease, stopping) => {
    report("leads", { token: lease.token });
    while (!stopping.aborted) {
      lease.check();
      report("acted", { token: lease.token });
      await pause(5);
    }
    if (!lease.signal.aborted) await pause(drainForMs);
    report("led", { token: lease.token, began: hostMs() });
  },
  /** Ignores `stopping`. */
  deaf: (lease) => {
    report("leads", { token: lease.token });
    return new Promise(() => undefined);
  },
};

const election = tenure.election("leader", {
  value: { pid: process.pid },
  rank,
  prepare: () => pause(warmMs),
  lead: leadFunctions[lead],
  onEvent: (event) =>
    report(event.type, { ...event, error: describeError(event.error), name: settings.name }),
});
election.start();
onCommand(async (options) => report("handed over", await election.resign(options)));
report("started");
