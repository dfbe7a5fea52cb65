// One set-up at a time in one clone, also after a crash. The lock is a folder of numbered files; the
// highest number is the lock, its text names the owner. Taking over from a dead owner means linking the
// next number, which only one process can do. (Deleting a dead owner's lock and making it anew would let a
// slow third process delete the new one.) The highest file is never deleted, so numbers never fall.
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

/** Runs `work` while no other process runs under the same folder; `onWait(pid)` is called once if it must wait. */
export async function withFolderLock(folder, onWait, work) {
  mkdirSync(folder, { recursive: true });
  const mine = join(folder, `new-${process.pid}`);
  writeFileSync(mine, ownerText(process.pid));
  let number;
  let told = false;
  while (number === undefined) {
    const owner = livingOwner(folder, highest(folder));
    if (owner !== undefined) {
      if (!told) onWait(owner);
      told = true;
      await sleep(250);
      continue;
    }
    number = tryTake(folder, mine);
  }
  rmSync(mine); // the number is a second name of the same file and stays
  try {
    return await work();
  } finally {
    // Replaced in one step: a reader sees a living owner or the word, never half a line.
    writeFileSync(mine, "released");
    renameSync(mine, join(folder, String(number)));
  }
}

function tryTake(folder, mine) {
  const before = highest(folder);
  if (livingOwner(folder, before) !== undefined) return undefined;
  const number = before + 1;
  try {
    linkSync(mine, join(folder, String(number)));
  } catch (error) {
    if (error.code === "EEXIST") return undefined;
    throw error;
  }
  // Our look may have been old: then higher numbers exist, and ours means nothing.
  if (highest(folder) !== number) {
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

function highest(folder) {
  return readdirSync(folder).reduce(
    (max, name) => (/^\d+$/.test(name) ? Math.max(max, Number(name)) : max),
    0,
  );
}

/** The pid that holds `number`, or undefined when it was released, its owner died, or there is none. */
function livingOwner(folder, number) {
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
  // The start time tells a living owner from a stranger that was given the same pid later.
  return isAlive(pid) && text === ownerText(pid) ? pid : undefined;
}

function isAlive(pid) {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    return error.code === "EPERM";
  }
}

function ownerText(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return `${pid} started ${stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19]}`;
  } catch {
    return `${pid}`;
  }
}
