// Kills the command's process group if this process dies for any reason: kill -9, a crash, out of
// memory. A small shell script in its own session reads from a pipe whose other end only this
// process holds. When the kernel closes that end, the script kills the group.

import { type ChildProcess, spawn } from "node:child_process";

// The script ignores signals from a terminal or to a group, so that it outlives this process. In
// dash, `kill -s` is the only form that accepts a group.
const SCRIPT = `
trap '' HUP INT QUIT TERM USR1 USR2 TSTP TTIN TTOU
read -r group || exit 0
read -r word
[ "$word" = done ] || kill -s KILL -- "-$group"
`;

/** If the script is killed this often, it is killed on purpose, so it is not restarted again. */
const RESTARTS_MAX = 20;

export class GroupKiller {
  #process: ChildProcess | undefined;
  #restarts = 0;
  #stopped = false;

  /** Once this resolves, the group does not outlive this process. */
  async start(group: number): Promise<void> {
    // The pid is only for people who read the process list.
    const args = ["-c", SCRIPT, "tenure-group-killer", String(process.pid)];
    const killer = spawn("/bin/sh", args, {
      detached: true,
      cwd: "/",
      env: {},
      stdio: ["pipe", "ignore", "ignore"],
    });
    killer.stdin?.on("error", () => undefined);
    await waitForSpawn(killer);
    this.#process = killer;
    killer.once("exit", () => this.#restart(group));
    // Once the line is in the pipe, the script can read it even after this process has died.
    await write(killer, `${group}\n`);
  }

  /** To be called when the group has ended: its id may soon belong to another process. */
  async stop(): Promise<void> {
    const killer = this.#process;
    this.#stopped = true;
    if (killer === undefined || killer.exitCode !== null || killer.signalCode !== null) return;
    const gone = new Promise((resolve) => killer.once("exit", resolve));
    await write(killer, "done\n").catch(() => undefined);
    killer.stdin?.end();
    await gone;
  }

  #restart(group: number): void {
    if (this.#stopped || this.#restarts >= RESTARTS_MAX) return;
    this.#restarts += 1;
    this.start(group).catch(() => undefined);
  }
}

export function waitForSpawn(child: ChildProcess): Promise<void> {
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
