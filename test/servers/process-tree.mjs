// Inspects, pauses and kills a process together with its descendants: PostgreSQL is a tree of
// processes, and a signal to its root does not reach the others. Plain JavaScript, because
// watchdog.mjs runs it without a compiler. On a system without /proc, a tree consists of its root
// only.
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const TICKS_PER_SECOND = 100;
const SIGNAL_MAX_MS = 5_000;

/**
 * @param {number | string} pid or "<pid>/task/<thread>"
 * @returns {{ state: string, parent: number, cpuSeconds: number, startedAt: string } | undefined}
 */
function readStat(pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name is in parentheses and may contain spaces and parentheses; the fields after it do
    // not.
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    // User and system time, of the process and of the children that it has waited for.
    const ticks = fields.slice(11, 15).reduce((sum, field) => sum + Number(field), 0);
    return {
      state: fields[0],
      parent: Number(fields[1]),
      cpuSeconds: ticks / TICKS_PER_SECOND,
      startedAt: fields[19],
    };
  } catch {
    return undefined;
  }
}

/**
 * When the process started, which distinguishes it from a later process with the same pid.
 * Undefined if the system does not report it.
 */
export function startedAt(pid) {
  return readStat(pid)?.startedAt;
}

/**
 * True if the process exists and is not a zombie. A zombie is dead and only waits for its parent.
 */
export function isRunning(pid) {
  const stat = readStat(pid);
  if (stat !== undefined) return stat.state !== "Z" && stat.state !== "X";
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === "EPERM";
  }
}

/** The process and all its descendants, parents first. */
export function findTree(pid) {
  const children = new Map();
  for (const name of listProcesses()) {
    const parent = readStat(Number(name))?.parent;
    if (parent === undefined) continue;
    children.set(parent, [...(children.get(parent) ?? []), Number(name)]);
  }
  const tree = [pid];
  // The list grows during the loop: children are appended after their parents.
  for (const member of tree) tree.push(...(children.get(member) ?? []));
  return tree;
}

/** CPU time of the whole tree since its start, in seconds. NaN if the system does not report it. */
export function readCpuSeconds(pid) {
  if (readStat(pid) === undefined) return Number.NaN;
  return findTree(pid).reduce((sum, member) => sum + (readStat(member)?.cpuSeconds ?? 0), 0);
}

/** Sends SIGSTOP to the whole tree. Resolves when all of its threads have stopped. */
export async function stopTree(pid) {
  const stopped = new Set();
  for (;;) {
    // Children are stopped after their parents. A stopped parent cannot create further children,
    // and a parent that waits for its child to start (vfork) is not blocked by a child that is
    // already stopped.
    const next = findTree(pid).filter(
      (member) => !stopped.has(member) && (member === pid || stopped.has(readStat(member)?.parent)),
    );
    if (next.length === 0) return;
    for (const member of next) send(member, "SIGSTOP");
    await Promise.all(next.map(waitUntilStopped));
    for (const member of next) stopped.add(member);
  }
}

export function continueTree(pid) {
  for (const member of findTree(pid).reverse()) send(member, "SIGCONT");
}

/** Sends SIGKILL to the whole tree. Resolves when none of its processes is running. */
export async function killTree(pid) {
  // Stopped first, because children created while their parent dies would be missed. A process that
  // cannot be stopped can still be killed.
  await stopTree(pid).catch(() => undefined);
  const tree = findTree(pid);
  for (const member of tree) send(member, "SIGKILL");
  const giveUpAt = performance.now() + SIGNAL_MAX_MS;
  while (tree.some(isRunning)) {
    if (performance.now() > giveUpAt)
      throw new Error(`Process ${pid} and its descendants are still running after SIGKILL.`);
    await sleep(1);
  }
}

/**
 * Resolves when all threads of the process have stopped. SIGSTOP takes effect only when a thread of
 * the process is scheduled; until then the other threads continue and answer. On a busy machine
 * that takes milliseconds.
 */
export async function waitUntilStopped(pid) {
  const giveUpAt = performance.now() + SIGNAL_MAX_MS;
  while (!readThreadStates(pid).every((state) => "TtZX".includes(state))) {
    if (performance.now() > giveUpAt)
      throw new Error(`Process ${pid} is still running after SIGSTOP.`);
    await sleep(1);
  }
}

function readThreadStates(pid) {
  try {
    const threads = readdirSync(`/proc/${pid}/task`);
    return threads.map((thread) => readStat(`${pid}/task/${thread}`)?.state ?? "X");
  } catch {
    return [];
  }
}

function send(pid, signal) {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if (error.code !== "ESRCH") throw error;
  }
}

function listProcesses() {
  try {
    return readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  } catch {
    return [];
  }
}
