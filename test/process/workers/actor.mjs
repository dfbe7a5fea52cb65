// Holds a lease and calls check() before every act, as users should. If `busy` is false, the worker
// acts when the parent commands it. If `busy` is true, eight sockets make it act without a pause,
// so that after a SIGSTOP the event loop serves a batch of I/O callbacks before any timer. The
// worker records the time before each check that passed, and reports the first check that failed.
import { createServer, connect as dial } from "node:net";
import { connect } from "../../../dist/index.js";
import { describeError, hostMs, onCommand, report, settings } from "./kit.mjs";

const SOCKETS = 8;
/** After this many acts, every socket has taken part in the load. */
const WARM_ACTS = 1_000;
const KEPT_TIMES = 1_000;

const tenure = await connect(`sqlite:${settings.file}`);
let lease;
let passed = [];
let acts = 0;

/** Returns whether the check passed. */
function act() {
  if (lease === undefined) return false;
  // Read before the check. If the process is stopped between the check and the write, only the
  // guard can reject that write. check() promises less: a check that begins too late fails.
  const at = hostMs();
  try {
    lease.check();
  } catch (error) {
    // A renewal was slow, as on a busy machine. The worker does not act, and still holds the lease.
    if (error.code === "LEASE_IN_DOUBT") return false;
    lease = undefined;
    report("refused", { error: describeError(error), acts, passed });
    return false;
  }
  acts += 1;
  passed.push(at);
  if (passed.length > 2 * KEPT_TIMES) passed = passed.slice(-KEPT_TIMES);
  if (acts === WARM_ACTS) report("warm");
  return true;
}

function keepBusy() {
  const server = createServer((socket) => socket.pipe(socket));
  server.listen(0, "127.0.0.1", () => {
    for (let index = 0; index < SOCKETS; index += 1) {
      const socket = dial(server.address().port, "127.0.0.1");
      socket.setNoDelay(true);
      socket.write(".");
      socket.on("data", () => {
        act();
        socket.write(".");
      });
    }
  });
}

onCommand(async (command) => {
  if (command.do === "act") report("acted", { passed: act() });
  if (command.do === "hold") {
    const granted = await tenure.acquire("settlement", settings.options);
    acts = 0;
    passed = [];
    report("held", { token: granted.token });
    lease = granted;
    act();
  }
});
if (settings.busy) keepBusy();
report("ready");
