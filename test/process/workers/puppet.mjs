// Executes the commands of a test, one at a time or several at once: connect, acquire, check,
// release. Every answer carries the time at which this process learned the result.
import { connect } from "../../../dist/index.js";
import { describeError, hostMs, onCommand, report, toHostMs } from "./kit.mjs";

let tenure;
const leases = new Map();

/** Keeps the lease for later commands, and reports when it is lost. */
function remember(resource, lease) {
  if (lease === undefined) return { held: false };
  const at = hostMs();
  leases.set(resource, lease);
  const reportLost = () =>
    report("lost", { resource, token: lease.token, reason: lease.signal.reason.reason });
  lease.signal.addEventListener("abort", reportLost);
  return { held: true, token: lease.token, at, safeUntil: toHostMs(lease.safeUntil) };
}

/** Blocks the event loop until the lease has ended, and checks it in the same turn. */
function blockPastEnd(lease) {
  let timerRan = false;
  setTimeout(() => {
    timerRan = true;
  }, 0);
  const until = lease.safeUntil + 50;
  while (performance.now() < until);
  const abortedBefore = lease.signal.aborted;
  const verdict = attempt(() => lease.check());
  return { ...verdict, timerRan, abortedBefore, abortedAfter: lease.signal.aborted };
}

function attempt(work) {
  try {
    return { token: work() };
  } catch (error) {
    return { error: describeError(error) };
  }
}

const commands = {
  connect: async ({ url, options }) => {
    tenure = await connect(url, options);
  },
  acquire: async ({ resource, options }) =>
    remember(resource, await tenure.acquire(resource, options)),
  tryAcquire: async ({ resource, options }) =>
    remember(resource, await tenure.tryAcquire(resource, options)),
  release: async ({ resource }) => {
    const startedAt = hostMs();
    return { result: await leases.get(resource).release(), startedAt };
  },
  check: ({ resource }) => ({ token: leases.get(resource).check() }),
  confirm: async ({ resource }) => {
    await leases.get(resource).confirmed();
    return { safeUntil: toHostMs(leases.get(resource).safeUntil) };
  },
  blockPastEnd: ({ resource }) => blockPastEnd(leases.get(resource)),
  read: async ({ resource }) => ({ holder: (await tenure.read(resource)).holder }),
  cpu: () => {
    const { user, system } = process.cpuUsage();
    return { cpuMs: (user + system) / 1000 };
  },
  close: () => tenure.close(),
};

onCommand(async ({ id, do: name, ...request }) => {
  try {
    report("answer", { id, ...(await commands[name](request)) });
  } catch (error) {
    report("answer", { id, error: describeError(error) });
  }
});
report("ready");
