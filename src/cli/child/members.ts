// Reports whether a process group still has running members. Zombies do not count: they cannot act,
// and in a container whose init does not reap them they stay forever.

import { readdirSync, readFileSync } from "node:fs";

export function hasMembers(group: number): boolean {
  if (!exists(group)) return false;
  if (process.platform !== "linux") return true;
  const states = readStates(group);
  // The kernel reports a member that /proc hides from us: assume that it is running.
  return states.length === 0 || states.some((state) => state !== "Z" && state !== "X");
}

function exists(group: number): boolean {
  try {
    process.kill(-group, 0);
    return true;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== "ESRCH";
  }
}

function readStates(group: number): string[] {
  return readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      const stat = readFileSync(`/proc/${name}/stat`, "latin1");
      // "pid (name) state ppid pgrp ...", where the name may contain spaces and parentheses.
      const [state = "", , pgrp] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      return Number(pgrp) === group ? [state] : [];
    } catch {
      return []; // The process has ended in the meantime.
    }
  });
}
