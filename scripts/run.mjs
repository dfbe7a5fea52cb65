// Starts child processes for the other scripts: passes signals on and gives back how the child ended. A
// script that was told to stop stops with its child, rather than going on to its next step.
// Only Node's built-ins, since it runs before anything is installed.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const signals = ["SIGINT", "SIGTERM", "SIGHUP"];

/** The project's folder. */
export const root = fileURLToPath(new URL("..", import.meta.url));

/**
 * Runs one command in the project's root.
 * @param {string} command
 * @param {string[]} args
 * @param {{ capture?: boolean, env?: Record<string, string>, shell?: boolean, outliveSignals?: boolean }} [options]
 *   capture: collect the output instead of showing it; outliveSignals: let the child alone decide what a signal means
 * @returns {Promise<{ code: number | null, signal: NodeJS.Signals | null, output: string, error?: NodeJS.ErrnoException }>}
 */
export function run(command, args, options = {}) {
  const child = spawn(command, args, {
    cwd: root,
    env: { ...process.env, ...options.env },
    shell: options.shell ?? false,
    stdio: options.capture ? ["ignore", "pipe", "pipe"] : "inherit",
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding("utf8").on("data", (text) => {
      output += text;
    });
  }
  // A terminal sends ^C to the whole process group, so the child has it already; sending it twice
  // would cut short a child that is cleaning up.
  let received;
  const onSignal = (signal) => {
    received = signal;
    if (signal !== "SIGINT" || !process.stdin.isTTY) child.kill(signal);
  };
  for (const signal of signals) process.on(signal, onSignal);
  return new Promise((resolve) => {
    const finish = (result) => {
      for (const signal of signals) process.off(signal, onSignal);
      if (received && !options.outliveSignals) process.kill(process.pid, received);
      else resolve({ code: null, signal: null, ...result, output });
    };
    child.once("error", (error) => finish({ error }));
    child.once("close", (code, signal) => finish({ code, signal }));
  });
}

/** Ends this process as the child ended: same code, or same signal. */
export function endLike({ code, signal, error }) {
  if (error) {
    console.error(error.message);
    process.exit(1);
  }
  if (signal) process.kill(process.pid, signal);
  else process.exit(code ?? 1);
}

/** npm as a command that works on every platform: the npm that started us, else the one in PATH. */
export function npm(args, options) {
  const cli = process.env.npm_execpath;
  if (cli?.endsWith("npm-cli.js")) return run(process.execPath, [cli, ...args], options);
  return run("npm", args, { ...options, shell: process.platform === "win32" });
}

/** The path of an installed tool's script, so that it can be run with this very node and no shell. */
export function tool(packageName, binName = packageName) {
  const folder = join(root, "node_modules", packageName);
  const { bin } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  return join(folder, typeof bin === "string" ? bin : bin[binName]);
}

/** Seconds since `startedAt` (from performance.now()), for progress lines. */
export function seconds(startedAt) {
  return `${((performance.now() - startedAt) / 1000).toFixed(1)} s`;
}
