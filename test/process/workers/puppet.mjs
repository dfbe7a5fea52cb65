// A process that does what the test says, one command at a time or several at once: connect, acquire, check, release.
// Every answer carries the instant at which it was known here.
import { connect } from "../../../dist/index.js";
import { factsOf, hostMs, onCommand, tell, toHostMs } from "./kit.mjs";

let tenure;
const leases = new Map();

function held(resource, lease) {
  if (lease === undefined) return { held: false };
  const at = hostMs();
  leases.set(resource, lease);
  const lost = () =>
    tell("lost", { resource, token: lease.token, reason: lease.signal.reason.reason });
  lease.signal.addEventListener("abort", lost);
  return { held: true, token: lease.token, at, safeUntil: toHostMs(lease.safeUntil) };
}

/** Uses up the processor until the lease is over, and checks it in the same turn of the event loop. */
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
    return { error: factsOf(error) };
  }
}

const commands = {
  connect: async ({ url, options }) => {
    tenure = await connect(url, options);
  },
  acquire: async ({ resource, options }) => held(resource, await tenure.acquire(resource, options)),
  tryAcquire: async ({ resource, options }) =>
    held(resource, await tenure.tryAcquire(resource, options)),
  release: async ({ resource }) => {
    const startedAt = hostMs();
    return { result: await leases.get(resource).release(), startedAt };
  },
  check: ({ resource }) => ({ token: leases.get(resource).check() }),
  settled: async ({ resource }) => {
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
    tell("answer", { id, ...(await commands[name](request)) });
  } catch (error) {
    tell("answer", { id, error: factsOf(error) });
  }
});
tell("ready");
