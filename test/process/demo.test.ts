// Goal: `npm start` shows the truth, can fail, and leaves nothing behind. Method: the demo as a process of its
// own, with a temporary folder of its own; its exit code, its table, and afterwards the folder and the process list.
// Everything runs side by side, because the demo mostly waits.
import { type ChildProcess, execFileSync, spawn } from "node:child_process";
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, describe, expect, test } from "vitest";

const demo = fileURLToPath(new URL("../../examples/demo/main.ts", import.meta.url));
const base = mkdtempSync(join(tmpdir(), "tenure-demo-test-"));
const running = new Set<ChildProcess>();
afterAll(() => {
  for (const child of running) child.kill("SIGKILL");
  rmSync(base, { recursive: true, force: true });
});

interface Run {
  readonly child: ChildProcess;
  /** The demo's temporary folder is made in here, and its workers name it in their arguments. */
  readonly folder: string;
  readonly ended: Promise<{ code: number | null; signal: string | null }>;
  output(): string;
  /** Resolves when the output contains the text; rejects when the demo ends without it. */
  until(text: string): Promise<void>;
}

function run(env: Record<string, string> = {}): Run {
  const folder = mkdtempSync(join(base, "run-"));
  const child = spawn(process.execPath, ["--import", "tsx", demo], {
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
      const look = (): void => void (text.includes(wanted) && resolve());
      child.on("text", look);
      void ended.then(() => reject(new Error(`The demo ended without "${wanted}":\n${text}`)));
      look();
    });
  return { child, folder, ended, output: () => text, until };
}

/** The processes whose arguments name the run's folder: its workers. */
function workersOf(folder: string): string[] {
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
      return []; // It ended meanwhile.
    }
  });
}

function expectNothingLeft({ folder }: Run): void {
  expect(workersOf(folder)).toEqual([]);
  expect(readdirSync(folder)).toEqual([]);
}

/** The number or word behind a name of the final table. */
function cell(output: string, name: string): string | undefined {
  return new RegExp(`^ {2}${name} +(\\S+)`, "m").exec(output)?.[1];
}

describe.concurrent("the demo", () => {
  test("S2: tries stale writes, sees every one refused, and exits with 0", async () => {
    const play = run();
    const end = await play.ended;
    const output = play.output();
    expect(end, output).toEqual({ code: 0, signal: null });
    expect(Number(cell(output, "stale writes tried")), output).toBeGreaterThanOrEqual(1);
    expect(cell(output, "stale writes accepted")).toBe("0");
    expect(cell(output, "tokens strictly increasing")).toBe("yes");
    expect(Number(cell(output, "grants"))).toBeGreaterThanOrEqual(7);
    expect(output).toContain("it throws LEASE_LOST");
    expect(output.match(/has held the lease since [\d-]+ [\d:]+ \(\d+s\)/g)).toHaveLength(2);
    // Piped, so without colours.
    expect(output).not.toContain("\u001B");
    expectNothingLeft(play);
  });

  test("S2: without the guard the same play lets stale writes in, says so, and exits with 1", async () => {
    const play = run({ TENURE_DEMO_WITHOUT_GUARD: "1" });
    const end = await play.ended;
    const output = play.output();
    expect(end, output).toEqual({ code: 1, signal: null });
    expect(output).toContain("The guard is OFF");
    expect(Number(cell(output, "stale writes accepted")), output).toBeGreaterThanOrEqual(1);
    expect(cell(output, "stale writes tried")).toBe(cell(output, "stale writes accepted"));
    expect(cell(output, "tokens strictly increasing")).toBe("yes");
    expectNothingLeft(play);
  });

  test("Ctrl-C while a worker is stopped ends all processes and removes the folder", async () => {
    const play = run();
    await play.until("(SIGSTOP)");
    expect(workersOf(play.folder)).toHaveLength(3);
    play.child.kill("SIGINT");
    expect(await play.ended).toEqual({ code: 130, signal: null });
    expectNothingLeft(play);
  });

  test("workers whose director was killed end each other, also the stopped one, and tidy up", async ({
    expect,
  }) => {
    const play = run();
    await play.until("(SIGSTOP)");
    play.child.kill("SIGKILL");
    expect(await play.ended).toEqual({ code: null, signal: "SIGKILL" });
    await expect.poll(() => workersOf(play.folder), { timeout: 5_000 }).toEqual([]);
    await expect.poll(() => readdirSync(play.folder), { timeout: 5_000 }).toEqual([]);
  });

  test("a worker that dies unasked fails the demo with a line that names it", async () => {
    const play = run();
    await play.until("holds the lease");
    await play.until("cleo  started");
    const pid = Number(/cleo {2}started, process (\d+)/.exec(play.output())?.[1]);
    process.kill(pid, "SIGKILL");
    expect(await play.ended).toEqual({ code: 1, signal: null });
    expect(play.output()).toContain("The demo could not finish: cleo ended unasked (SIGKILL)");
    expectNothingLeft(play);
  });
});
