// Goal: the demo reports correct results, can fail, and leaves no processes or files. Method: the
// demo as a process with its own temporary folder; the tests check its exit code and table, then
// the folder and the process list. The tests run concurrently, because the demo mostly waits.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";

const demo = fileURLToPath(new URL("../../examples/demo/start.mjs", import.meta.url));
const base = mkdtempSync(join(tmpdir(), "tenure-demo-test-"));
const running = new Set<ChildProcess>();
afterAll(() => {
  for (const child of running) child.kill("SIGKILL");
  rmSync(base, { recursive: true, force: true });
});

interface Run {
  readonly child: ChildProcess;
  /** The demo creates its temporary folder here, and its workers have the path as an argument. */
  readonly folder: string;
  readonly ended: Promise<{ code: number | null; signal: string | null }>;
  output(): string;
  /** Resolves when the output contains the text. Rejects if the demo ends before. */
  until(text: string): Promise<void>;
}

function run(env: Record<string, string> = {}): Run {
  const folder = mkdtempSync(join(base, "run-"));
  const child = spawn(process.execPath, [demo], {
    env: { ...process.env, TMPDIR: folder, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  running.add(child);
  let text = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (part: string) => {
      text += part;
      child.emit("text");
    });
  }
  const ended = new Promise<{ code: number | null; signal: string | null }>((resolve) => {
    child.once("close", (code, signal) => {
      running.delete(child);
      resolve({ code, signal });
    });
  });
  const until = (wanted: string): Promise<void> =>
    new Promise((resolve, reject) => {
      const check = (): void => void (text.includes(wanted) && resolve());
      child.on("text", check);
      void ended.then(() => reject(new Error(`The demo ended without "${wanted}":\n${text}`)));
      check();
    });
  return { child, folder, ended, output: () => text, until };
}

/** Finds the workers of a run: the processes whose arguments contain its folder. */
function findWorkers(folder: string): string[] {
  return commandLines().filter((line) => line.includes(folder));
}

function commandLines(): string[] {
  if (process.platform !== "linux") {
    return execFileSync("ps", ["-A", "-ww", "-o", "pid=,args="], { encoding: "utf8" }).split("\n");
  }
  // Small images have no ps.
  return readdirSync("/proc").flatMap((pid) => {
    try {
      return /^\d+$/.test(pid) ? [readFileSync(`/proc/${pid}/cmdline`, "utf8")] : [];
    } catch {
      return []; // The process has ended in the meantime.
    }
  });
}

function expectNothingLeft({ folder }: Run): void {
  expect(findWorkers(folder)).toEqual([]);
  expect(readdirSync(folder)).toEqual([]);
}

/** Reads a value of the final table by its name. */
function readCell(output: string, name: string): string | undefined {
  return new RegExp(`^ {2}${name} +(\\S+)`, "m").exec(output)?.[1];
}

describe.concurrent("the demo", () => {
  test("S2: attempts stale writes, all are rejected, and exits with 0", async () => {
    const play = run();
    const end = await play.ended;
    const output = play.output();
    expect(end, output).toEqual({ code: 0, signal: null });
    expect(Number(readCell(output, "stale writes attempted")), output).toBeGreaterThanOrEqual(1);
    expect(readCell(output, "stale writes accepted")).toBe("0");
    expect(readCell(output, "tokens strictly increasing")).toBe("yes");
    expect(Number(readCell(output, "grants"))).toBeGreaterThanOrEqual(7);
    expect(output).toContain("it throws LEASE_LOST");
    expect(output.match(/has held the lease since [\d-]+ [\d:]+ \(\d+s\)/g)).toHaveLength(2);
    // Piped, so without colours.
    expect(output).not.toContain("\u001B");
    expectNothingLeft(play);
  });

  test("S2: without the guard, stale writes are accepted and reported, and it exits with 1", async () => {
    const play = run({ TENURE_DEMO_WITHOUT_GUARD: "1" });
    const end = await play.ended;
    const output = play.output();
    expect(end, output).toEqual({ code: 1, signal: null });
    expect(output).toContain("The guard is OFF");
    expect(Number(readCell(output, "stale writes accepted")), output).toBeGreaterThanOrEqual(1);
    expect(readCell(output, "stale writes attempted")).toBe(
      readCell(output, "stale writes accepted"),
    );
    expect(readCell(output, "tokens strictly increasing")).toBe("yes");
    expectNothingLeft(play);
  });

  test("Ctrl-C while a worker is stopped ends all processes and removes the folder", async () => {
    const play = run();
    await play.until("(SIGSTOP)");
    expect(findWorkers(play.folder)).toHaveLength(3);
    play.child.kill("SIGINT");
    expect(await play.ended).toEqual({ code: 130, signal: null });
    expectNothingLeft(play);
  });

  test("if the main process is killed, the workers kill the stopped one, remove the folder and exit", async ({
    expect,
  }) => {
    const play = run();
    await play.until("(SIGSTOP)");
    play.child.kill("SIGKILL");
    expect(await play.ended).toEqual({ code: null, signal: "SIGKILL" });
    await expect.poll(() => findWorkers(play.folder), { timeout: 5_000 }).toEqual([]);
    await expect.poll(() => readdirSync(play.folder), { timeout: 5_000 }).toEqual([]);
  });

  test("a worker that dies unexpectedly fails the demo with a line that names it", async () => {
    const play = run();
    await play.until("acquired the lease");
    await play.until("cleo  started");
    const pid = Number(/cleo {2}started, process (\d+)/.exec(play.output())?.[1]);
    process.kill(pid, "SIGKILL");
    expect(await play.ended).toEqual({ code: 1, signal: null });
    expect(play.output()).toContain("The demo could not finish: cleo ended unexpectedly (SIGKILL)");
    expectNothingLeft(play);
  });
});
