// Goal: a command under `tenure run` does not outlive its lease, whatever happens to the lease, the
// store or the program, even if the command resists. Method: real processes on a SQLite file. The
// command ignores SIGTERM and logs when it was alive; the tables of the store say when the lease
// expires.
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import Database from "better-sqlite3";
import { expect, test } from "vitest";
import { EXIT } from "../../src/cli/exit-codes.ts";
import {
  type Cli,
  type CliWorld,
  cliWorlds,
  SHORT,
  SHORT_RENEWAL_MS,
} from "../support/process/cli.ts";
import { hostMs, until } from "../support/process/process-file.ts";

const world = cliWorlds();
const STUBBORN = fileURLToPath(new URL("./workers/stubborn.mjs", import.meta.url));

interface Job {
  readonly cli: Cli;
  readonly log: string;
}

async function startStubborn(
  here: CliWorld,
  traits: string[] = [],
  options: string[] = [],
): Promise<Job> {
  const log = join(here.folder, "log");
  const command = ["--", process.execPath, STUBBORN, log, ...traits];
  const cli = here.start(["run", "job", ...SHORT, ...options, ...command]);
  const alive = traits.includes("fork") ? 2 : 1;
  await until("the command runs", () => starts(log).length === alive && beats(log).length > 10);
  return { cli, log };
}

function entries(log: string, what: string): number[] {
  if (!existsSync(log)) return [];
  const lines = readFileSync(log, "utf8").trim().split("\n");
  return lines.filter((line) => line.startsWith(what)).map((line) => Number(line.split(" ")[1]));
}

const beats = (log: string): number[] => entries(log, "beat");
const starts = (log: string): number[] => entries(log, "start");
const lastBeat = (log: string): number => Math.max(...beats(log));

async function expectNothingLeft(from: CliWorld): Promise<void> {
  await until("nothing is left running", () => from.alive().length === 0, 10_000).catch(() => {
    expect(from.alive()).toEqual([]);
  });
}

/** Starts a process that waits for the same resource and logs when it acquires it. */
function startSuccessor(here: CliWorld, log: string): Cli {
  const script = `require("fs").appendFileSync(${JSON.stringify(log)}, "next " + Number(process.hrtime.bigint()) / 1e6 + "\\n")`;
  return here.start(["run", "job", ...SHORT, "--", process.execPath, "-e", script]);
}

test("S3: if the store does not answer, SIGTERM and SIGKILL are sent before the lease expires; code 70", async () => {
  const here = world();
  const { cli, log } = await startStubborn(here);
  const database = new Database(join(here.folder, "tenure.db"), { timeout: 5_000 });
  try {
    database.exec("BEGIN IMMEDIATE");
    const row = database.prepare("SELECT max(expires_ms) AS ms FROM session").get();
    // The store uses the boot clock, the log the monotonic clock. Without a suspend their
    // difference is constant.
    const bootMs = Number(readFileSync("/proc/uptime", "utf8").split(" ")[0]) * 1_000;
    const expiresAt = Number((row as { ms: number }).ms) - bootMs + hostMs();
    expect(await cli.ended).toEqual({ code: EXIT.lost, signal: null });
    // The last beat of the command counts, not the time at which this test sees its exit.
    expect(lastBeat(log)).toBeLessThan(expiresAt);
    const [terminatedAt = Number.POSITIVE_INFINITY] = entries(log, "SIGTERM");
    // One second before the deadline, which is 620 ms before the expiry.
    expect(terminatedAt).toBeLessThan(expiresAt - 620);
    expect(lastBeat(log) - terminatedAt).toBeGreaterThan(300);
    expect(cli.err).toContain("lost: ");
    database.exec("ROLLBACK");
  } finally {
    database.close();
  }
  await expectNothingLeft(here);
});

test("a revoked lease ends the command and its double-forked child immediately; code 70", async () => {
  const here = world();
  const { cli, log } = await startStubborn(here, ["fork", "closed"]);
  const at = hostMs();
  expect((await here.run(["revoke", "job", "--yes"])).exit.code).toBe(EXIT.ok);
  expect(await cli.ended).toEqual({ code: EXIT.lost, signal: null });
  expect(cli.err).toContain("a third party revoked it");
  // Two seconds of tolerance for a busy machine.
  expect(lastBeat(log)).toBeLessThan(at + SHORT_RENEWAL_MS + 600 + 2_000);
  await expectNothingLeft(here);
});

test("--restart: after a loss it acquires again and runs the command with a larger token", async () => {
  const here = world();
  const script = 'echo "run $TENURE_TOKEN"; exec sleep 60';
  const cli = here.start(["run", "job", ...SHORT, "--restart", "--", "sh", "-c", script]);
  await cli.said(/^run \d+\n/);
  await here.run(["revoke", "job", "--yes"]);
  const [, first = "", second = ""] =
    /^run (\d+)\nrun (\d+)\n/.exec(await cli.said(/^run \d+\nrun \d+\n/)) ?? [];
  expect(BigInt(second)).toBeGreaterThan(BigInt(first));
  cli.signal("SIGTERM");
  expect(await cli.ended).toEqual({ code: 143, signal: null });
  await expectNothingLeft(here);
});

test("kill -9 of the program: the whole group of the command dies before the next holder acquires", async () => {
  const here = world();
  const { cli, log } = await startStubborn(here, ["fork", "closed"]);
  const next = startSuccessor(here, log);
  cli.signal("SIGKILL");
  expect(await cli.ended).toEqual({ code: null, signal: "SIGKILL" });
  const killedAt = hostMs();
  expect(await next.ended).toEqual({ code: 0, signal: null });
  expect(lastBeat(log)).toBeLessThan(killedAt + 2_000);
  expect(entries(log, "next")[0]).toBeGreaterThan(lastBeat(log));
  await expectNothingLeft(here);
});

test("a killed group killer is replaced: kill -9 of the program still ends the command", async () => {
  const here = world();
  const { cli } = await startStubborn(here);
  const findKiller = (): number | undefined => {
    const line = here.alive().find((process) => process.includes("tenure-group-killer"));
    return line === undefined ? undefined : Number.parseInt(line, 10);
  };
  const first = findKiller() ?? 0;
  process.kill(first, "SIGKILL");
  await until("another group killer runs", () => (findKiller() ?? first) !== first);
  cli.signal("SIGKILL");
  await cli.ended;
  await expectNothingLeft(here);
});

test("S6: a program that was frozen past its ttl kills the command when it resumes; code 70", async () => {
  const here = world();
  const { cli, log } = await startStubborn(here);
  const next = startSuccessor(here, log);
  cli.signal("SIGSTOP");
  expect(await next.ended).toEqual({ code: 0, signal: null });
  const resumedAt = hostMs();
  cli.signal("SIGCONT");
  expect(await cli.ended).toEqual({ code: EXIT.lost, signal: null });
  // A frozen program cannot kill: the command ran past the expiry. Only the token protects then.
  expect(lastBeat(log)).toBeGreaterThan(entries(log, "next")[0] ?? 0);
  expect(lastBeat(log)).toBeLessThan(resumedAt + 2_000);
  expect(entries(log, "SIGTERM")).toEqual([]);
  await expectNothingLeft(here);
});

test("a command that ends while the program is frozen past its ttl counts as lost: code 70, not its own code", async () => {
  const here = world();
  const cli = here.start(["run", "job", ...SHORT, "--", "sh", "-c", "echo ready; sleep 1; exit 0"]);
  await cli.said("ready");
  const next = here.start(["run", "job", ...SHORT, "--", "true"]);
  cli.signal("SIGSTOP");
  expect(await next.ended).toEqual({ code: 0, signal: null });
  cli.signal("SIGCONT");
  expect(await cli.ended).toEqual({ code: EXIT.lost, signal: null });
});

test("^Z stops the command with the program; it continues in time, and never after a loss", async () => {
  const here = world();
  const { cli, log } = await startStubborn(here);
  const isStill = async (): Promise<boolean> => {
    const before = lastBeat(log);
    await new Promise((resolve) => setTimeout(resolve, 200));
    return lastBeat(log) === before;
  };
  cli.signal("SIGTSTP");
  await expect.poll(isStill, { timeout: 5_000 }).toBe(true);
  cli.signal("SIGCONT");
  await expect.poll(isStill, { timeout: 5_000 }).toBe(false);
  cli.signal("SIGTSTP");
  await expect.poll(isStill, { timeout: 5_000 }).toBe(true);
  const stoppedAt = lastBeat(log);
  const next = startSuccessor(here, log);
  expect(await next.ended).toEqual({ code: 0, signal: null });
  cli.signal("SIGCONT");
  expect(await cli.ended).toEqual({ code: EXIT.lost, signal: null });
  expect(lastBeat(log)).toBe(stoppedAt);
  await expectNothingLeft(here);
});
