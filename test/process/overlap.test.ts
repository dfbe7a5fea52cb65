// Goal: the overlap command can be trusted as a command: its exit codes, its lines, and that nothing of it is left when it is
// interrupted. Method: it runs as users run it, with few trials.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test } from "vitest";
import { until } from "../servers/ask.ts";
import { isRunning, treeOf } from "../servers/process-tree.mjs";
import { startRedis } from "../servers/redis.ts";
import { useServer } from "../servers/use-server.ts";

const MAIN = fileURLToPath(new URL("../../bench/overlap/main.ts", import.meta.url));

interface Command {
  readonly child: ChildProcess;
  readonly ended: Promise<{ code: number | null; stdout: string; stderr: string }>;
}

function overlap(args: readonly string[], env: Record<string, string> = {}): Command {
  const child = spawn(process.execPath, ["--import", "tsx", MAIN, ...args], {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...env },
  });
  onTestFinished(() => void child.kill("SIGKILL"));
  const [stdout, stderr]: [string[], string[]] = [[], []];
  child.stdout?.on("data", (chunk) => stdout.push(String(chunk)));
  child.stderr?.on("data", (chunk) => stderr.push(String(chunk)));
  const ended = once(child, "close").then(([code]) => ({
    ...{ code, stdout: stdout.join(""), stderr: stderr.join("") },
  }));
  return { child, ended };
}

test("a bad flag: exit code 2, the reason and the usage on stderr, nothing on stdout", async () => {
  const { code, stdout, stderr } = await overlap(["--store", "mysql"]).ended;
  expect([code, stdout]).toEqual([2, ""]);
  expect(stderr).toMatch(/no store "mysql" here\. Known are redis/);
  expect(stderr).toContain("npm run overlap -- [--trials N]");
});

test("an engine that is not to be had is named, and the exit code is not 0", async () => {
  // As on a machine without it: a given server is refused here, for it could not be cut off or counted on.
  const env = { TENURE_TEST_REDIS: "redis://127.0.0.1:1" };
  const { code, stdout, stderr } = await overlap(["--store", "redis", "--json"], env).ended;
  expect([code, stdout]).toEqual([1, ""]);
  expect(stderr).toContain("redis: TENURE_TEST_REDIS names a server");
  expect(stderr).toContain("not measured, see above: redis");
});

describe("with a server", () => {
  // The command starts its own; where it could not, neither can this one, and these tests are skipped.
  const redis = useServer(startRedis, { own: true });

  test("--json: one line per engine on stdout, with its figures", async () => {
    expect(redis().givenBy).toBeUndefined();
    const { code, stdout } = await overlap(["--trials", "2", "--store", "redis", "--json"]).ended;
    expect(code).toBe(0);
    const lines = stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(lines).toEqual([
      {
        ...{ name: "redis", trials: 2, overlaps: 0 },
        ...{ overlapMsMax: expect.any(Number), holderToldMsP99: expect.any(Number) },
      },
    ]);
    expect(lines[0].overlapMsMax).toBeLessThan(0);
  });

  test.each([
    ["SIGINT", 130],
    ["SIGTERM", 143],
  ] as const)("%s ends it, and nothing of it goes on running", async (signal, expected) => {
    const { child, ended } = overlap(["--trials", "50", "--store", "redis"]);
    const pid = child.pid ?? Number.NaN;
    let family: number[] = [];
    // The command, its server, and workers of several trials.
    const isBusy = async (): Promise<boolean> => {
      family = treeOf(pid);
      return family.length >= 8;
    };
    await until("trials are under way", isBusy, 30_000);
    child.kill(signal);
    expect((await ended).code).toBe(expected);
    const isOver = async (): Promise<boolean> => !family.some(isRunning);
    await until("every process of it is gone", isOver, 15_000);
  });
});
