// A candidate of an election, as a deployed process would be one: it leads until it is told to stop, and ends by SIGTERM.
import { connect, onShutdown } from "../../../dist/index.js";
import { factsOf, hostMs, onCommand, settings, tell } from "./kit.mjs";

const { url, timing, graceMs = 10_000, warmMs = 0, lead = "polite", drainForMs = 20 } = settings;
const { rank } = settings;
const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

const tenure = await connect(url, { holderId: settings.name, defaults: timing });
onShutdown(tenure, { graceMs, before: () => tell("asked to end") });

const leads = {
  /** Finishes what it is doing when it is asked to, and returns. */
  polite: async (lease, stopping) => {
    tell("leads", { token: lease.token });
    while (!stopping.aborted) {
      lease.check();
      tell("acted", { token: lease.token });
      await pause(5);
    }
    if (!lease.signal.aborted) await pause(drainForMs);
    tell("led", { token: lease.token, began: hostMs() });
  },
  deaf: (lease) => {
    tell("leads", { token: lease.token });
    return new Promise(() => undefined);
  },
};

const election = tenure.election("leader", {
  value: { pid: process.pid },
  rank,
  prepare: () => pause(warmMs),
  lead: leads[lead],
  onEvent: (event) =>
    tell(event.type, { ...event, error: factsOf(event.error), name: settings.name }),
});
election.start();
onCommand(async (wish) => tell("handed over", await election.resign(wish)));
tell("started");
