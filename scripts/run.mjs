// Starts child processes for the other scripts, passes signals on, and reports how the child ended.
// A script that receives a signal ends with its child instead of continuing with its next step.
// Uses only Node's built-ins, because it runs before the installation.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

const signals = ["SIGINT", "SIGTERM", "SIGHUP"];

/** The root folder of the repository. */
export const root = fileURLToPath(new URL("..", import.meta.url));

/**
 * @typedef {object} RunOptions
 * @property {boolean} [capture] collect the output instead of showing it
 * @property {Record<string, string>} [env]
 * @property {boolean} [shell]
 * @property {string} [cwd] by default the root folder
 * @property {boolean} [outliveSignals] do not end this process when it receives a signal
 *
 * @typedef {object} RunResult
 * @property {number | null} code
 * @property {NodeJS.Signals | null} signal
 * @property {string} output
 * @property {NodeJS.ErrnoException} [error]
 */

/**
 * Runs a command, by default in the root folder.
 * @param {string} command
 * @param {string[]} args
 * @param {RunOptions} [options]
 * @returns {Promise<RunResult>}
 */
export function run(command, args, options = {}) {
  const child = spawn(command, args, {
    cwd: options.cwd ?? root,
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
  // A terminal sends ^C to the whole process group, so the child has already received it. A second
  // signal could interrupt a child that is cleaning up.
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

/** Ends this process as the child ended: with the same code or signal. */
export function endLike({ code, signal, error }) {
  if (error) {
    console.error(error.message);
    process.exit(1);
  }
  if (signal) process.kill(process.pid, signal);
  else process.exit(code ?? 1);
}

/** Runs npm on every platform: the npm that started this script, otherwise the one in PATH. */
export function npm(args, options) {
  const cli = process.env.npm_execpath;
  if (cli?.endsWith("npm-cli.js")) return run(process.execPath, [cli, ...args], options);
  return run("npm", args, { ...options, shell: process.platform === "win32" });
}

/**
 * The path of the script of an installed tool, which is run with the current node, without a shell.
 */
export function tool(packageName, binName = packageName) {
  const folder = join(root, "node_modules", packageName);
  const { bin } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
  return join(folder, typeof bin === "string" ? bin : bin[binName]);
}

/** Seconds since `startedAt` (from performance.now()), for progress lines. */
export function seconds(startedAt) {
  return `${((performance.now() - startedAt) / 1000).toFixed(1)} s`;
}
