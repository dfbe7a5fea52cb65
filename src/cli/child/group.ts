// The command in a session and process group of its own. It starts behind a gate: a shell that waits for one word and then
// becomes the command. So the killer knows the group before the command exists, and the lease is looked at in between; if we
// die before the word, the gate falls shut and nothing was started.

import { type ChildProcess, spawn } from "node:child_process";
import type { Writable } from "node:stream";
import { GroupKiller } from "./group-killer.ts";
import { hasMembers } from "./members.ts";

// The name is unlikely in anyone's environment; descriptor 3 is closed before the command begins.
const GATE = `
read -r tenure_gate <&3 && [ "$tenure_gate" = go ] || exit 125
unset tenure_gate
exec 3<&-
exec "$@"
`;

export interface GroupExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export class ChildGroup {
  readonly id: number;
  /** How the command itself ended; others of its group may still run. */
  readonly exited: Promise<GroupExit>;
  readonly #killer: GroupKiller;

  private constructor(id: number, exited: Promise<GroupExit>, killer: GroupKiller) {
    this.id = id;
    this.exited = exited;
    this.#killer = killer;
  }

  /** `mayStart` is asked at the last moment; when it throws, the command never ran. */
  static async start(
    command: readonly string[],
    env: NodeJS.ProcessEnv,
    mayStart: () => void,
  ): Promise<ChildGroup> {
    const child = spawn("/bin/sh", ["-c", GATE, "tenure", ...command], {
      detached: true,
      env,
      stdio: ["inherit", "inherit", "inherit", "pipe"],
    });
    const exited = exitOf(child);
    const gate = child.stdio[3] as Writable;
    gate.on("error", () => undefined);
    const id = await pidOf(child);
    const killer = new GroupKiller();
    try {
      await killer.arm(id);
      mayStart();
    } catch (error) {
      gate.destroy();
      await exited;
      await killer.disarm();
      throw error;
    }
    gate.end("go\n");
    return new ChildGroup(id, exited, killer);
  }

  /** To every process of the group; that there is none any more is no error. */
  signal(signal: NodeJS.Signals): void {
    try {
      process.kill(-this.id, signal);
    } catch (error) {
      // EPERM: all that is left runs as somebody else.
      const { code } = error as NodeJS.ErrnoException;
      if (code !== "ESRCH" && code !== "EPERM") throw error;
    }
  }

  get isAlive(): boolean {
    return hasMembers(this.id);
  }

  /** To be called when the group is over. */
  async close(): Promise<void> {
    await this.#killer.disarm();
  }
}

function exitOf(child: ChildProcess): Promise<GroupExit> {
  return new Promise((resolve) => {
    child.once("exit", (code, signal) => resolve({ code, signal }));
    // It never started; start() reports why.
    child.once("error", () => resolve({ code: null, signal: null }));
  });
}

function pidOf(child: ChildProcess): Promise<number> {
  return new Promise((resolve, reject) => {
    child.once("spawn", () => resolve(child.pid as number));
    child.once("error", reject);
  });
}
