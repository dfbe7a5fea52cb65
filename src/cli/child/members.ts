// Whether anything of a process group still runs. A zombie does not: it can do nothing, and in a container without an init
// that collects the dead it stays for ever.

import { readdirSync, readFileSync } from "node:fs";

export function hasMembers(group: number): boolean {
  if (!exists(group)) return false;
  if (process.platform !== "linux") return true;
  const states = statesOf(group);
  // The kernel knows of somebody whom we may not see: take it for alive.
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

function statesOf(group: number): string[] {
  return readdirSync("/proc").flatMap((name) => {
    if (!/^\d+$/.test(name)) return [];
    try {
      const stat = readFileSync(`/proc/${name}/stat`, "latin1");
      // "pid (name) state ppid pgrp ...", and the name may contain anything.
      const [state = "", , pgrp] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      return Number(pgrp) === group ? [state] : [];
    } catch {
      return []; // It ended meanwhile.
    }
  });
}
