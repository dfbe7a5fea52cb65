// A leader that never ends by itself, in a process that should end by SIGTERM.
import { connect, onShutdown } from "../../../dist/index.js";
import { settings, tell } from "./kit.mjs";

const { url, timing, graceMs } = settings;
const tenure = await connect(url, { defaults: timing });
onShutdown(tenure, { graceMs, before: () => tell("asked to end") });
const lead = () => {
  tell("leads");
  return new Promise(() => undefined);
};
tenure.election("leader", { lead, onEvent: () => undefined }).start();
