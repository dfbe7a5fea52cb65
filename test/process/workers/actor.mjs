// Holds a lease and acts under it: before every act it asks check(), as every user should. Idle, it acts when the parent
// says so. Busy, eight sockets keep it acting without a pause, so that after a stop a whole batch of I/O callbacks is
// served before any timer. It keeps the instant before each check that passed, and tells when one did not.
import { createServer, connect as dial } from "node:net";
import { connect } from "../../../dist/index.js";
import { factsOf, hostMs, onCommand, settings, tell } from "./kit.mjs";

const SOCKETS = 8;
/** So many acts, and every socket has its share in the load. */
const WARM = 1_000;
const KEPT = 1_000;

const tenure = await connect(`sqlite:${settings.file}`);
let lease;
let passed = [];
let acts = 0;

/** Whether the check passed. */
function act() {
  if (lease === undefined) return false;
  // Read before the check. A process that is stopped between its check and its write cannot be helped by any check:
  // there the guard at the resource decides. What check() owes us is that none passes that began too late.
  const at = hostMs();
  try {
    lease.check();
  } catch (error) {
    lease = undefined;
    tell("refused", { error: factsOf(error), acts, passed });
    return false;
  }
  acts += 1;
  passed.push(at);
  if (passed.length > 2 * KEPT) passed = passed.slice(-KEPT);
  if (acts === WARM) tell("warm");
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
  if (command.do === "act") tell("asked", { passed: act() });
  if (command.do === "hold") {
    const granted = await tenure.acquire("settlement", settings.options);
    acts = 0;
    passed = [];
    tell("held", { token: granted.token });
    lease = granted;
    act();
  }
});
if (settings.busy) keepBusy();
tell("ready");
