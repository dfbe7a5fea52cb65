// What Linux tells of a process and its descendants: PostgreSQL is a tree, and a signal to its root alone
// leaves the backends running. Plain JavaScript, because watchdog.mjs runs it without a compiler. On a system
// without /proc a tree is its root, and nothing more is known of it.
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";

const TICKS_PER_SECOND = 100;
const SIGNAL_MAX_MS = 5_000;

/**
 * @param {number | string} pid or "<pid>/task/<thread>"
 * @returns {{ state: string, parent: number, cpuSeconds: number, startedAt: string } | undefined}
 */
function statOf(pid) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name in brackets may itself contain spaces and brackets; the rest is plain.
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    // User and system time, its own and that of children it has waited for.
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

/** Tells this process from a later one that was given the same number; undefined where the system does not say. */
export function startedAt(pid) {
  return statOf(pid)?.startedAt;
}

/** True when it is there and not a zombie: a dead process that nobody has waited for yet does no more. */
export function isRunning(pid) {
  const stat = statOf(pid);
  if (stat !== undefined) return stat.state !== "Z" && stat.state !== "X";
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === "EPERM";
  }
}

/** The process and everything below it, parents first. */
export function treeOf(pid) {
  const children = new Map();
  for (const name of listProcesses()) {
    const parent = statOf(Number(name))?.parent;
    if (parent === undefined) continue;
    children.set(parent, [...(children.get(parent) ?? []), Number(name)]);
  }
  const tree = [pid];
  // The list grows while it is walked: children of children are found behind their parents.
  for (const member of tree) tree.push(...(children.get(member) ?? []));
  return tree;
}

/** CPU time of the whole tree since it began, in seconds; NaN where the system does not say. */
export function cpuSecondsOf(pid) {
  if (statOf(pid) === undefined) return Number.NaN;
  return treeOf(pid).reduce((sum, member) => sum + (statOf(member)?.cpuSeconds ?? 0), 0);
}

/** SIGSTOP to the whole tree; resolves when none of its threads runs any more. */
export async function stopTree(pid) {
  const stopped = new Set();
  for (;;) {
    // Parents first, and their children only when they have stopped: no child is born behind our back, and a parent
    // that waits for its child to begin (vfork) is not kept waiting for ever by a child that we stopped.
    const next = treeOf(pid).filter(
      (member) => !stopped.has(member) && (member === pid || stopped.has(statOf(member)?.parent)),
    );
    if (next.length === 0) return;
    for (const member of next) send(member, "SIGSTOP");
    await Promise.all(next.map(hasStopped));
    for (const member of next) stopped.add(member);
  }
}

export function continueTree(pid) {
  for (const member of treeOf(pid).reverse()) send(member, "SIGCONT");
}

/** SIGKILL to the whole tree; resolves when none of it runs. */
export async function killTree(pid) {
  // Stopped first: children that are born while their parent dies would be nobody's. One that cannot be stopped
  // can still be killed.
  await stopTree(pid).catch(() => undefined);
  const tree = treeOf(pid);
  for (const member of tree) send(member, "SIGKILL");
  const giveUpAt = performance.now() + SIGNAL_MAX_MS;
  while (tree.some(isRunning)) {
    if (performance.now() > giveUpAt)
      throw new Error(`Process ${pid} and its children do not die.`);
    await sleep(1);
  }
}

/**
 * The signal only asks: the thread that is to take it must be scheduled first, and until then the others go on and
 * answer. On a busy machine that takes milliseconds.
 */
export async function hasStopped(pid) {
  const giveUpAt = performance.now() + SIGNAL_MAX_MS;
  while (!threadStatesOf(pid).every((state) => "TtZX".includes(state))) {
    if (performance.now() > giveUpAt) throw new Error(`Process ${pid} does not stop.`);
    await sleep(1);
  }
}

function threadStatesOf(pid) {
  try {
    const threads = readdirSync(`/proc/${pid}/task`);
    return threads.map((thread) => statOf(`${pid}/task/${thread}`)?.state ?? "X");
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
