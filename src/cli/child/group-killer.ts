// Kills the command's process group when this process is gone, however it went: kill -9, a crash, out of memory. A shell of a
// few lines in a session of its own reads from a pipe that only we hold; when the kernel closes our end, it kills.

import { type ChildProcess, spawn } from "node:child_process";

// Its signals are none of ours: a terminal or a group kill must not take it away. `kill -s` because dash knows no other form
// that takes a group.
const SCRIPT = `
trap '' HUP INT QUIT TERM USR1 USR2 TSTP TTIN TTOU
read -r group || exit 0
read -r word
[ "$word" = done ] || kill -s KILL -- "-$group"
`;

/** Whoever kills it time and again wants it gone. */
const RESTARTS_MAX = 20;

export class GroupKiller {
  #process: ChildProcess | undefined;
  #restarts = 0;
  #over = false;

  /** From when this resolves, the group does not outlive us. */
  async arm(group: number): Promise<void> {
    // Our number is for people who look at the process list.
    const args = ["-c", SCRIPT, "tenure-group-killer", String(process.pid)];
    const killer = spawn("/bin/sh", args, {
      detached: true,
      cwd: "/",
      env: {},
      stdio: ["pipe", "ignore", "ignore"],
    });
    killer.stdin?.on("error", () => undefined);
    await started(killer);
    this.#process = killer;
    killer.once("exit", () => this.#gone(group));
    // In the pipe is enough: it is read after our death as well.
    await write(killer, `${group}\n`);
  }

  /** The group is over: there is nobody to kill, and its number may soon be somebody else's. */
  async disarm(): Promise<void> {
    const killer = this.#process;
    this.#over = true;
    if (killer === undefined || killer.exitCode !== null || killer.signalCode !== null) return;
    const gone = new Promise((resolve) => killer.once("exit", resolve));
    await write(killer, "done\n").catch(() => undefined);
    killer.stdin?.end();
    await gone;
  }

  #gone(group: number): void {
    if (this.#over || this.#restarts >= RESTARTS_MAX) return;
    this.#restarts += 1;
    this.arm(group).catch(() => undefined);
  }
}

function started(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    child.once("spawn", resolve);
    child.once("error", reject);
  });
}

function write(child: ChildProcess, text: string): Promise<void> {
  return new Promise((resolve, reject) => {
    child.stdin?.write(text, (error) => (error ? reject(error) : resolve()));
  });
}
