// Starts the built `tenure` program for tests and collects its output, its exit and the processes
// that it left running. After each test, all processes that it started are killed, including the
// commands.
import { type ChildProcess, spawn } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach } from "vitest";

export const PROGRAM: string = fileURLToPath(new URL("../../../dist/cli/main.js", import.meta.url));

/** A program that prints nothing for this long counts as hanging. */
const SILENCE_MAX_MS = 20_000;

/**
 * The shortest ttl that is reliable on a busy machine: margin 620 ms, SIGTERM one second before the
 * deadline, a renewal every 890 ms.
 */
export const SHORT: readonly string[] =
  "--ttl 4s --clock-error 20ms --round-trip 600ms --kill-after 1s".split(" ");
export const SHORT_RENEWAL_MS = 890;

export interface CliExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export class Cli {
  readonly child: ChildProcess;
  readonly ended: Promise<CliExit>;
  out = "";
  err = "";

  constructor(args: readonly string[], env: NodeJS.ProcessEnv, cwd: string) {
    this.child = spawn(process.execPath, [PROGRAM, ...args], {
      env,
      cwd,
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.child.setMaxListeners(0);
    this.child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      this.out += text;
      this.child.emit("said");
    });
    this.child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.err += text;
      this.child.emit("said");
    });
    // "exit", not "close": a process left running would keep the pipes open, and the test has to
    // fail rather than hang.
    this.ended = new Promise((resolve, reject) => {
      this.child.once("error", reject);
      this.child.once("exit", (code, signal) => setTimeout(() => resolve({ code, signal }), 50));
    });
  }

  /** Resolves when stdout contains or matches `wanted`. Rejects if the program ends before. */
  said(wanted: string | RegExp): Promise<string> {
    return new Promise((resolve, reject) => {
      const fail = (why: string): void =>
        reject(new Error(`${why} before ${String(wanted)}.\n${this.out}\n${this.err}`));
      const timer = setTimeout(() => fail("No output for too long"), SILENCE_MAX_MS);
      const check = (): void => {
        const found =
          typeof wanted === "string" ? this.out.includes(wanted) : wanted.test(this.out);
        if (!found) return;
        clearTimeout(timer);
        resolve(this.out);
      };
      this.child.on("said", check);
      void this.ended.then((exit) => {
        check();
        clearTimeout(timer);
        fail(`It ended (${JSON.stringify(exit)})`);
      });
      check();
    });
  }

  signal(signal: NodeJS.Signals): void {
    this.child.kill(signal);
  }

  json(): unknown {
    return JSON.parse(this.out);
  }
}

export interface CliWorld {
  readonly folder: string;
  /** Starts `tenure` on a store file of this test. */
  start(args: readonly string[], env?: NodeJS.ProcessEnv): Cli;
  /** Starts `tenure` and waits until it exits. */
  run(args: readonly string[], env?: NodeJS.ProcessEnv): Promise<Cli & { exit: CliExit }>;
  /** Running processes that were started by a program of this test, and its group killers. */
  alive(): string[];
}

/** Call once at the top of a test file. The result creates a new world for each test. */
export function cliWorlds(): () => CliWorld {
  if (!existsSync(PROGRAM)) throw new Error(`${PROGRAM} is missing. Run npm run build.`);
  const started: Cli[] = [];
  const folders: string[] = [];
  afterEach(async () => {
    for (const cli of started) {
      if (cli.child.exitCode === null && cli.child.signalCode === null) cli.signal("SIGKILL");
    }
    await Promise.all(started.splice(0).map((cli) => cli.ended));
    for (const folder of folders.splice(0)) {
      for (const pid of findPids(folder)) kill(pid);
      rmSync(folder, { recursive: true, force: true });
    }
  });
  return () => {
    const folder = mkdtempSync(join(tmpdir(), "tenure-cli-"));
    folders.push(folder);
    const base = {
      ...process.env,
      TENURE_STORE: `sqlite:${join(folder, "tenure.db")}`,
      XDG_STATE_HOME: folder,
    };
    const start = (args: readonly string[], env: NodeJS.ProcessEnv = {}): Cli => {
      const cli = new Cli(args, { ...base, ...env }, folder);
      started.push(cli);
      return cli;
    };
    return {
      folder,
      start,
      run: async (args, env) => {
        const cli = start(args, env);
        const exit = await cli.ended;
        return Object.assign(cli, { exit });
      },
      alive: () => {
        const killers = started.map((cli) => `tenure-group-killer ${cli.child.pid} `);
        return commandLines()
          .filter(
            ({ pid, line }) =>
              findPids(folder).includes(pid) || killers.some((end) => line.endsWith(end)),
          )
          .map(({ pid, line }) => `${pid} ${line}`);
      },
    };
  };
}

/** Finds processes by their environment, which children inherit. Zombies have none. */
function findPids(folder: string): number[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .filter((name) => read(`/proc/${name}/environ`).includes(folder))
    .map(Number);
}

function commandLines(): { readonly pid: number; readonly line: string }[] {
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((name) => ({ pid: Number(name), line: read(`/proc/${name}/cmdline`) }))
    .filter(({ line }) => line !== "");
}

function read(path: string): string {
  try {
    return readFileSync(path, "utf8").replaceAll("\0", " ");
  } catch {
    return ""; // The process has ended in the meantime.
  }
}

function kill(pid: number): void {
  try {
    process.kill(pid, "SIGKILL");
  } catch {
    // The process has ended in the meantime.
  }
}
