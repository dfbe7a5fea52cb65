// Installs a missing engine from Debian's packages: without questions, without recommended
// packages, and without starting a daemon, because tests start their own servers. Only one install
// runs on this machine at a time.
import { spawn } from "node:child_process";
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { withFolderLock } from "../../scripts/folder-lock.mjs";
import {
  debianPackages,
  type Engine,
  type EngineName,
  findEngine,
  findInPath,
  MissingEngineError,
} from "./engine.ts";

const LOCK_FOLDER = "run/lock/tenure-install";
const APT_MAX_MS = 600_000;
const BUSY_RETRY_MS = 500;

/** What an install depends on. Tests replace it. */
export interface Machine {
  /** The root folder of the system files, usually "/". */
  readonly root: string;
  readonly isRoot: boolean;
  /** The path of apt-get; undefined on a system without it. */
  readonly apt: string | undefined;
  /** False if TENURE_TEST_INSTALL=no. */
  readonly allowed: boolean;
}

function thisMachine(): Machine {
  return {
    root: "/",
    isRoot: process.getuid?.() === 0,
    apt: findInPath("apt-get"),
    allowed: process.env.TENURE_TEST_INSTALL !== "no",
  };
}

/**
 * Finds the engine, or installs it. Throws MissingEngineError with the reason and the install
 * command if that is not possible. `say` receives lines of progress, because an install takes
 * seconds, with Java a minute.
 */
export async function installEngine(
  name: EngineName,
  say: (line: string) => void = (line) => process.stdout.write(`${line}\n`),
  machine: Machine = thisMachine(),
): Promise<Engine> {
  const found = await findEngine(name);
  if (found !== undefined) return found;
  const obstacle = findObstacle(machine);
  if (machine.apt === undefined || obstacle !== undefined) throw missingEngine(name, `${obstacle}`);
  const apt = machine.apt;
  return runExclusively(join(machine.root, LOCK_FOLDER), say, async () => {
    const installed = await findEngine(name);
    if (installed !== undefined) return installed;
    say(`installing ${debianPackages[name]} for the tests (apt-get)`);
    const begunAt = performance.now();
    await withoutDaemons(machine.root, () => install(apt, name));
    const engine = await findEngine(name);
    if (engine === undefined)
      throw missingEngine(name, "it was installed, but is not where Debian has it");
    const seconds = ((performance.now() - begunAt) / 1000).toFixed(1);
    say(`installed ${debianPackages[name]} ${engine.version} in ${seconds} s`);
    return engine;
  });
}

let previous: Promise<unknown> = Promise.resolve();

/**
 * Runs one install at a time. The folder lock excludes other processes; the queue excludes other
 * calls in this process.
 */
function runExclusively<T>(
  folder: string,
  say: (line: string) => void,
  work: () => Promise<T>,
): Promise<T> {
  const onWait = (pid: number): void => say(`waiting for process ${pid}, which installs an engine`);
  const mine = previous.then(() => withFolderLock(folder, onWait, work));
  previous = mine.catch(() => undefined);
  return mine;
}

function findObstacle(machine: Machine): string | undefined {
  if (!machine.allowed) return "it is not installed, and TENURE_TEST_INSTALL=no";
  if (machine.apt === undefined) return "it is not installed, and there is no apt-get here";
  if (!machine.isRoot) return "it is not installed, and only root may install it";
  return undefined;
}

function missingEngine(name: EngineName, reason: string): MissingEngineError {
  const command = `apt-get install --no-install-recommends ${debianPackages[name]}`;
  const isEngine = name !== "openssl" && name !== "pgbouncer";
  const other = !isEngine
    ? ""
    : `, or set TENURE_TEST_${name.toUpperCase()} to the URL of a server`;
  return new MissingEngineError(name, `${reason} (to install it: ${command}${other})`);
}

async function install(apt: string, name: EngineName): Promise<void> {
  const options = ["-y", "--no-install-recommends", "-o", "Dpkg::Options::=--force-confold"];
  const attempt = (): Promise<AptResult> =>
    runApt(apt, ["install", ...options, debianPackages[name]]);
  let ended = await attempt();
  if (!ended.ok) {
    // A fresh image has no package lists, and old lists name versions that no longer exist.
    await runApt(apt, ["update"]);
    ended = await attempt();
  }
  if (!ended.ok) {
    const error = /^E:.*/m.exec(ended.output)?.[0] ?? "it did not say why";
    throw missingEngine(name, `apt-get could not install it: ${error.slice(0, 200)}`);
  }
}

interface AptResult {
  readonly ok: boolean;
  readonly output: string;
}

/** Retries while another program holds the lock of the package manager. */
async function runApt(apt: string, args: readonly string[]): Promise<AptResult> {
  const giveUpAt = performance.now() + APT_MAX_MS;
  for (;;) {
    const ended = await runOnce(apt, args);
    const busy = /Could not get lock|Unable to (lock|acquire)/.test(ended.output);
    if (ended.ok || !busy || performance.now() > giveUpAt) return ended;
    await sleep(BUSY_RETRY_MS);
  }
}

function runOnce(apt: string, args: readonly string[]): Promise<AptResult> {
  // The limits keep a machine without network from waiting for minutes.
  const limits = ["-o", "Acquire::http::Timeout=20", "-o", "Acquire::Retries=1"];
  const child = spawn(apt, [...limits, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive", NEEDRESTART_MODE: "l", LC_ALL: "C" },
    timeout: APT_MAX_MS,
  });
  let output = "";
  const collect = (text: string): void => {
    output += text;
  };
  child.stdout.setEncoding("utf8").on("data", collect);
  child.stderr.setEncoding("utf8").on("data", collect);
  return new Promise((resolve) => {
    child.once("error", (error) => resolve({ ok: false, output: `E: ${error.message}` }));
    child.once("close", (code) => resolve({ ok: code === 0, output }));
  });
}

const MARK =
  "# Left by the tests of tenure while they install an engine; remove it if you find it.\n";
const WHILE_INSTALLING = [
  // Every package runs this script before it starts its daemon; exit code 101 means no.
  { path: "usr/sbin/policy-rc.d", text: `#!/bin/sh\n${MARK}exit 101\n` },
  {
    path: "etc/postgresql-common/createcluster.d/tenure-tests.conf",
    text: `${MARK}create_main_cluster = false\n`,
  },
];

/**
 * Runs `work` under a policy that keeps packages from starting daemons. An existing policy is not
 * changed.
 */
async function withoutDaemons(root: string, work: () => Promise<void>): Promise<void> {
  const ours = WHILE_INSTALLING.map(({ path, text }) => ({ path: join(root, path), text })).filter(
    ({ path }) => !existsSync(path) || readFileSync(path, "utf8").includes(MARK),
  );
  for (const { path, text } of ours) {
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
    chmodSync(path, 0o755);
  }
  try {
    await work();
  } finally {
    for (const { path } of ours) {
      rmSync(path, { force: true });
      // Removes up to two parent folders, unless a package has put files into them.
      for (const folder of [dirname(path), dirname(dirname(path))]) removeIfEmpty(folder);
    }
  }
}

function removeIfEmpty(folder: string): void {
  try {
    rmdirSync(folder);
  } catch {
    // The folder is not empty, or we may not remove it.
  }
}
