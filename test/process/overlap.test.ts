// Goal: the overlap command has the documented exit codes and output, and leaves no process running
// when it is interrupted. Method: it runs as users run it, with few trials.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test } from "vitest";
import { until } from "../servers/ask.ts";
import { findTree, isRunning } from "../servers/process-tree.mjs";
import { startRedis } from "../servers/redis.ts";
import { useServer } from "../servers/use-server.ts";

const MAIN = fileURLToPath(new URL("../../bench/overlap/main.ts", import.meta.url));

interface Command {
  readonly child: ChildProcess;
  readonly ended: Promise<{ code: number | null; stdout: string; stderr: string }>;
}

function startOverlap(args: readonly string[], env: Record<string, string> = {}): Command {
  const child = spawn(process.execPath, ["--import", "tsx", MAIN, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...env },
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const [stdout, stderr]: [string[], string[]] = [[], []];
  child.stdout?.on("data", (chunk) => stdout.push(String(chunk)));
  child.stderr?.on("data", (chunk) => stderr.push(String(chunk)));
  const ended = once(child, "close").then(([code]) => ({
    code,
    stdout: stdout.join(""),
    stderr: stderr.join(""),
  }));
  return { child, ended };
}

test("a bad flag ends with code 2, and with the reason and the usage on stderr", async () => {
  const { code, stdout, stderr } = await startOverlap(["--store", "mysql"]).ended;
  expect([code, stdout]).toEqual([2, ""]);
  expect(stderr).toMatch(/--store expects some of redis, .*, got "mysql"\./);
  expect(stderr).toContain("npm run overlap -- [--trials N]");
});

test("an engine that cannot run is named, and the exit code is 1", async () => {
  // The command cannot cut off a server that the environment names, so it treats it as missing.
  const env = { TENURE_TEST_REDIS: "redis://127.0.0.1:1" };
  const { code, stdout, stderr } = await startOverlap(["--store", "redis", "--json"], env).ended;
  expect([code, stdout]).toEqual([1, ""]);
  expect(stderr).toContain("redis: TENURE_TEST_REDIS names a server");
  expect(stderr).toContain("redis was not measured, see above");
});

describe("with a server", () => {
  // The command starts its own server. Where that is impossible, this skips the tests.
  const redis = useServer(startRedis, { own: true });

  test("--json prints one line per engine on stdout, with its figures", async () => {
    expect(redis().givenBy).toBeUndefined();
    const { code, stdout } = await startOverlap(["--trials", "2", "--store", "redis", "--json"])
      .ended;
    expect(code).toBe(0);
    const lines = stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(lines).toEqual([
      {
        name: "redis",
        trials: 2,
        overlaps: 0,
        overlapMsMax: expect.any(Number),
        holderToldMsP99: expect.any(Number),
      },
    ]);
    expect(lines[0].overlapMsMax).toBeLessThan(0);
  });

  test.each([
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const)("%s ends the command and all of its processes", async (signal, expected) => {
    const { child, ended } = startOverlap(["--trials", "50", "--store", "redis"]);
    const pid = child.pid ?? Number.NaN;
    let family: number[] = [];
    // The command, its server, and workers of several trials.
    const isBusy = async (): Promise<boolean> => {
      family = findTree(pid);
      return family.length >= 8;
    };
    await until("trials are running", isBusy, 30_000);
    child.kill(signal);
    expect((await ended).code).toBe(expected);
    const haveEnded = async (): Promise<boolean> => !family.some(isRunning);
    await until("all of its processes have ended", haveEnded, 15_000);
  });
});
