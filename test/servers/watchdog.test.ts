// Goal: no server and no folder outlives the process that started it, no matter how and when that
// process ends. Method: watchdog-program.ts, with a temp folder of its own, is ended in every way.
// Then the folder must be empty, and no process may work in it.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readlinkSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { until } from "./ask.ts";
import { needEngine } from "./given.ts";
import { findTree, isRunning } from "./process-tree.mjs";

const PROGRAM = fileURLToPath(new URL("./watchdog-program.ts", import.meta.url));
const WATCHDOG = fileURLToPath(new URL("./watchdog.mjs", import.meta.url));
const GONE_MAX_MS = 10_000;
let folder: string;
let child: ChildProcess | undefined;

beforeEach(async (context) => {
  for (const name of ["redis", "postgres"] as const) {
    await needEngine(name).catch((error: Error) => context.skip(error.message));
  }
  folder = mkdtempSync(join(tmpdir(), "tenure-watchdog-"));
  chmodSync(folder, 0o755);
});

afterEach(() => {
  child?.kill("SIGKILL");
  rmSync(folder, { recursive: true, force: true });
});

function start(engine: string, ending: string): ChildProcess {
  child = spawn(process.execPath, ["--import", "tsx", PROGRAM, folder, engine, ending], {
    stdio: ["ignore", "pipe", "ignore"],
    env: { ...process.env, NODE_OPTIONS: "" },
  });
  return child;
}

/** Everything that the program started: its servers with their descendants, and the watchdog. */
async function readStartedTree(program: ChildProcess): Promise<number[]> {
  await once(program.stdout as NodeJS.EventEmitter, "data");
  return findTree(program.pid ?? Number.NaN);
}

async function waitUntilClean(): Promise<void> {
  const isClean = async (): Promise<boolean> => leftovers().length === 0;
  await until("nothing is left", isClean, GONE_MAX_MS).catch(() => {
    expect(leftovers()).toEqual([]);
  });
}

function leftovers(): string[] {
  const files = readdirSync(folder);
  const processes = readdirSync("/proc").filter((name) => {
    try {
      return readlinkSync(`/proc/${name}/cwd`).startsWith(folder) && isRunning(Number(name));
    } catch {
      return false;
    }
  });
  return [...files, ...processes.map((pid) => `process ${pid}`)];
}

describe.skipIf(process.platform !== "linux")("[reason: it reads /proc] the watchdog", () => {
  test.each(["SIGKILL", "SIGTERM", "SIGINT"] as const)(
    "ends the servers of a process that receives %s",
    async (signal) => {
      const program = start("redis", "wait");
      const tree = await readStartedTree(program);
      expect(tree.length).toBeGreaterThanOrEqual(3);
      program.kill(signal);
      await waitUntilClean();
      await until("the watchdog ends too", async () => !tree.some(isRunning), GONE_MAX_MS);
    },
  );

  test.each(["done", "exit", "crash"])(
    "ends the servers of a process that ends by itself: %s",
    async (ending) => {
      const program = start("redis", ending);
      const [code] = await once(program, "exit");
      expect(code).toBe(ending === "crash" ? 1 : 0);
      await waitUntilClean();
    },
  );

  test("ends a paused PostgreSQL with all its processes", async () => {
    const program = start("postgres", "paused");
    const tree = await readStartedTree(program);
    expect(tree.length).toBeGreaterThanOrEqual(6);
    program.kill("SIGKILL");
    await waitUntilClean();
    await until("all are gone", async () => !tree.some(isRunning), GONE_MAX_MS);
  });

  test("cleans up after a process that ends before it has read the reply", async () => {
    const made = join(folder, "made");
    mkdirSync(made);
    const watchdog = spawn(process.execPath, [WATCHDOG], {
      stdio: ["ignore", "ignore", "ignore", "ipc"],
    });
    watchdog.send({ id: 0, folder: join(folder, "never made") });
    await once(watchdog, "message");
    for (let id = 1; id < 20; id += 1) watchdog.send({ id, folder: made });
    watchdog.disconnect();
    const [code] = await once(watchdog, "exit");
    expect(code).toBe(0);
    await waitUntilClean();
  });

  test("cleans up after a process that is killed while it starts a server", async () => {
    for (let kill = 0; kill < 4; kill += 1) {
      const program = start(kill % 2 === 0 ? "redis" : "postgres", "wait");
      // Killed as soon as it has created anything, and a little later each time.
      await until("it begins", async () => leftovers().length > 0, GONE_MAX_MS);
      await sleep(kill * 30);
      program.kill("SIGKILL");
      await waitUntilClean();
    }
  });
});
