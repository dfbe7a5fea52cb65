// Runs the command in its own session and process group. A shell starts first, waits for a line on
// a pipe, and then replaces itself with the command (exec). This leaves time to start the group
// killer and to check the lease before the command runs. If this process dies before it writes the
// line, the shell exits and the command never runs.

import { type ChildProcess, spawn } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import type { Writable } from "node:stream";
import { GroupKiller, waitForSpawn } from "./group-killer.ts";

// The variable name is unlikely to exist in an environment. Descriptor 3 is closed before the
// command runs.
const START_SCRIPT = `
read -r tenure_start <&3 && [ "$tenure_start" = go ] || exit 125
unset tenure_start
exec 3<&-
exec "$@"
`;

export interface GroupExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export class ChildGroup {
  readonly id: number;
  /** How the command itself ended. Other processes of its group may still be running. */
  readonly exited: Promise<GroupExit>;
  readonly #killer: GroupKiller;

  private constructor(id: number, exited: Promise<GroupExit>, killer: GroupKiller) {
    this.id = id;
    this.exited = exited;
    this.#killer = killer;
  }

  /** `checkStart` is called last. If it throws, the command is not run. */
  static async start(
    command: readonly string[],
    env: NodeJS.ProcessEnv,
    checkStart: () => void,
  ): Promise<ChildGroup> {
    const child = spawn("/bin/sh", ["-c", START_SCRIPT, "tenure", ...command], {
      detached: true,
      env,
      stdio: ["inherit", "inherit", "inherit", "pipe"],
    });
    const exited = waitForExit(child);
    const startPipe = child.stdio[3] as Writable;
    startPipe.on("error", () => undefined);
    await waitForSpawn(child);
    const id = child.pid as number;
    const killer = new GroupKiller();
    try {
      await killer.start(id);
      checkStart();
    } catch (error) {
      startPipe.destroy();
      await exited;
      await killer.stop();
      throw error;
    }
    startPipe.end("go\n");
    return new ChildGroup(id, exited, killer);
  }

  /** Sends a signal to every process of the group. It is not an error if none is left. */
  signal(signal: NodeJS.Signals): void {
    try {
      process.kill(-this.id, signal);
    } catch (error) {
      // EPERM: all remaining processes run as another user.
      const { code } = error as NodeJS.ErrnoException;
      if (code !== "ESRCH" && code !== "EPERM") throw error;
    }
  }

  get isAlive(): boolean {
    return hasMembers(this.id);
  }

  /** To be called when all processes of the group have ended. */
  async close(): Promise<void> {
    await this.#killer.stop();
  }
}

function waitForExit(child: ChildProcess): Promise<GroupExit> {
  return new Promise((resolve) => {
    child.once("exit", (code, signal) => resolve({ code, signal }));
    // The shell did not start; start() reports the error.
    child.once("error", () => resolve({ code: null, signal: null }));
  });
}

/**
 * Whether a process group still has running members. Zombies do not count: they cannot act, and in
 * a container whose init does not reap them they stay forever.
 */
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
