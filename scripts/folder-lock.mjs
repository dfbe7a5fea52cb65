// A lock that allows one set-up at a time per clone and survives crashes. The lock is a folder of
// numbered files. The file with the highest number is the lock; its text names the owner. A process
// takes over from a dead owner by linking the next number, which only one process can do. (If it
// deleted and recreated the file of the dead owner, a slow third process could delete the new
// file.) The file with the highest number is never deleted, so numbers never decrease.
import {
  linkSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

/** Runs `work` while holding the lock. Calls `onWait(pid)` once if it has to wait. */
export async function withFolderLock(folder, onWait, work) {
  mkdirSync(folder, { recursive: true });
  const mine = join(folder, `new-${process.pid}`);
  writeFileSync(mine, describeOwner(process.pid));
  let number;
  let hasReported = false;
  while (number === undefined) {
    const owner = findLivingOwner(folder, findHighest(folder));
    if (owner !== undefined) {
      if (!hasReported) onWait(owner);
      hasReported = true;
      await sleep(250);
      continue;
    }
    number = tryTake(folder, mine);
  }
  rmSync(mine); // the number is a second link to the same file and stays
  try {
    return await work();
  } finally {
    // Renamed atomically: a reader sees either the owner or "released", never a partial line.
    writeFileSync(mine, "released");
    renameSync(mine, join(folder, String(number)));
  }
}

function tryTake(folder, mine) {
  const before = findHighest(folder);
  if (findLivingOwner(folder, before) !== undefined) return undefined;
  const number = before + 1;
  try {
    linkSync(mine, join(folder, String(number)));
  } catch (error) {
    if (error.code === "EEXIST") return undefined;
    throw error;
  }
  // If higher numbers exist, `before` was outdated and our number is not the lock.
  if (findHighest(folder) !== number) {
    rmSync(join(folder, String(number)), { force: true });
    return undefined;
  }
  for (const name of readdirSync(folder)) {
    const leftover = /^new-(\d+)$/.exec(name);
    if (/^\d+$/.test(name) ? Number(name) < number : leftover && !isAlive(Number(leftover[1]))) {
      rmSync(join(folder, name), { force: true });
    }
  }
  return number;
}

function findHighest(folder) {
  return readdirSync(folder).reduce(
    (max, name) => (/^\d+$/.test(name) ? Math.max(max, Number(name)) : max),
    0,
  );
}

/** The pid that holds `number`. Undefined if it is free, released, or its owner has died. */
function findLivingOwner(folder, number) {
  if (number === 0) return undefined;
  let text;
  try {
    text = readFileSync(join(folder, String(number)), "utf8");
  } catch (error) {
    if (error.code === "ENOENT") return undefined;
    throw error;
  }
  if (text === "released") return undefined;
  const pid = Number.parseInt(text, 10);
  // The start time distinguishes the owner from a later process with the same pid.
  return isAlive(pid) && text === describeOwner(pid) ? pid : undefined;
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === "EPERM";
  }
}

function describeOwner(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return `${pid} started ${stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19]}`;
  } catch {
    return `${pid}`;
  }
}
