// Goal: `tenure run` without faults: mutual exclusion, the environment, exit codes, signals, and no
// processes left running. Method: the built program as real processes on a SQLite file.
import { spawn } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { hasMembers } from "../../src/cli/child/group.ts";
import { GroupKiller } from "../../src/cli/child/group-killer.ts";
import { EXIT } from "../../src/cli/exit-codes.ts";
import { type CliWorld, cliWorlds, PROGRAM, SHORT } from "../support/process/cli.ts";
import { hostMs, until } from "../support/process/process-file.ts";

const world = cliWorlds();

const sh = (script: string): string[] => ["--", "sh", "-c", script];

async function expectNothingLeft(from: CliWorld): Promise<void> {
  await until("nothing is left running", () => from.alive().length === 0, 5_000).catch(() => {
    expect(from.alive()).toEqual([]);
  });
}

describe("the command", () => {
  test("finds resource, token and deadline in its environment, and its output is unchanged", async () => {
    const here = world();
    const before = hostMs();
    const script = 'echo "$TENURE_RESOURCE $TENURE_TOKEN $TENURE_SAFE_UNTIL_MS"';
    const first = await here.run(["run", "job", ...sh(script)]);
    const second = await here.run(["run", "job", ...sh(script)]);
    expect(first.err + second.err).toBe("");
    const [resource, token, safeUntil] = first.out.trim().split(" ");
    expect(resource).toBe("job");
    expect(BigInt(second.out.split(" ")[1] ?? 0)).toBeGreaterThan(BigInt(token ?? 0));
    // A ttl of 10 s less the margin of 1.1 s, from when the session was opened.
    expect(Number(safeUntil)).toBeGreaterThan(before + 8_900);
    expect(Number(safeUntil)).toBeLessThan(hostMs() + 8_900);
    expect((await here.run(["show", "job"])).exit.code).toBe(EXIT.no);
    await expectNothingLeft(here);
  });

  test.each(["run", "elect"])(
    "%s: inherits TENURE_STORE, but not with --hide-store",
    async (command) => {
      const here = world();
      const inner = `${JSON.stringify(process.execPath)} ${JSON.stringify(PROGRAM)} show inner`;
      const script = sh(`echo "store $TENURE_STORE"; ${inner}`);
      const url = `sqlite:${join(here.folder, "tenure.db")}`;
      const shown = await here.run([command, "job", ...script]);
      expect(shown.out).toContain(`store ${url}\ninner is free.\n`);
      const hidden = await here.run([command, "job", "--hide-store", ...script]);
      expect(hidden.out).toContain("store hidden:\n");
      // The inner tenure must not use this user's default file instead.
      expect(hidden.exit.code).toBe(EXIT.usage);
      expect(hidden.err).toContain("hides its store (--hide-store). Pass --store URL");
      const named = sh(`${inner} --store ${url}`);
      const again = await here.run([command, "job", "--hide-store", ...named]);
      expect(again.out).toContain("inner is free.\n");
    },
  );

  test("ends the program with its own exit code, or 128 + n for a signal", async () => {
    const here = world();
    expect((await here.run(["run", "job", ...sh("exit 37")])).exit.code).toBe(37);
    expect((await here.run(["run", "job", ...sh("kill -9 $$")])).exit.code).toBe(137);
    expect((await here.run(["run", "job", ...sh("kill -TERM $$")])).exit.code).toBe(143);
  });

  test("is checked before a lease is acquired", async () => {
    const here = world();
    writeFileSync(join(here.folder, "text"), "no program");
    const missing = await here.run(["run", "job", "--", "no-such-command-anywhere"]);
    expect(missing.exit.code).toBe(EXIT.notFound);
    expect(missing.err).toContain("The command no-such-command-anywhere was not found.");
    const text = await here.run(["run", "job", "--", "./text"]);
    expect(text.exit.code).toBe(EXIT.notExecutable);
  });

  test("receives every signal that the program receives, as does its whole group", async () => {
    const here = world();
    // The grandchild receives the signals because they go to the group. A shell started with &
    // ignores INT and QUIT.
    const trap = (name: string): string =>
      `for s in HUP INT QUIT USR1 USR2 TERM; do trap "echo ${name}-$s" $s; done; echo ${name}-ready; while :; do sleep 0.02; done`;
    const job = here.start(["run", "job", ...sh(`(${trap("grandchild")}) & ${trap("own")}`)]);
    for (const name of ["ready", "HUP", "INT", "QUIT", "USR1", "USR2", "TERM"]) {
      if (name !== "ready") job.signal(`SIG${name}` as NodeJS.Signals);
      await job.said(`own-${name}`);
      if (name !== "INT" && name !== "QUIT") await job.said(`grandchild-${name}`);
    }
    expect(job.child.exitCode).toBe(null);
  });

  test("SIGTERM ends a command that does not trap it: code 143, and the lease is released", async () => {
    const here = world();
    const job = here.start(["run", "job", ...sh("echo ready; exec sleep 60")]);
    await job.said("ready");
    job.signal("SIGTERM");
    expect(await job.ended).toEqual({ code: 143, signal: null });
    expect((await here.run(["show", "job"])).exit.code).toBe(EXIT.no);
    await expectNothingLeft(here);
  });

  test("S6: processes that it leaves in its group are ended before the lease is released", async () => {
    const here = world();
    const file = join(here.folder, "log");
    const script = `(trap '' TERM; while :; do echo left >> '${file}'; sleep 0.02; done) & sleep 0.2; exit 5`;
    const job = await here.run(["run", "job", ...SHORT, ...sh(script)]);
    expect(job.exit.code).toBe(5);
    const lines = readFileSync(file, "utf8");
    await expectNothingLeft(here);
    expect(readFileSync(file, "utf8")).toBe(lines);
    expect((await here.run(["show", "job"])).exit.code).toBe(EXIT.no);
  });
});

describe("waiting", () => {
  test("busy exits immediately with --no-wait and later with --wait; --json distinguishes it from a command's own 75", async () => {
    const here = world();
    const holder = here.start(["run", "job", ...sh("echo ready; exec sleep 60")]);
    await holder.said("ready");
    const [now, later, own] = await Promise.all([
      here.run(["run", "job", "--no-wait", ...sh("echo never")]),
      here.run(["run", "job", "--wait", "300ms", "--json", ...sh("echo never")]),
      here.run(["run", "other", "--json", ...sh("exit 75")]),
    ]);
    expect([now.exit.code, later.exit.code, own.exit.code]).toEqual([75, 75, 75]);
    expect(now.out + later.out).toBe("");
    expect(now.err).toContain('busy: "job" is held by');
    const events = (text: string): unknown[] =>
      text
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line));
    expect(events(later.err).at(-1)).toMatchObject({ by: "tenure", reason: "busy", exitCode: 75 });
    expect(events(own.err).at(-1)).toMatchObject({ by: "command", exitCode: 75 });
  });

  test("the next command runs when the first has ended; a signal ends the wait", async () => {
    const here = world();
    const file = join(here.folder, "log");
    const script = (name: string): string =>
      `echo "${name} in" >> '${file}'; echo ready; sleep 0.4; echo "${name} out" >> '${file}'`;
    const first = here.start(["run", "job", ...sh(script("first"))]);
    await first.said("ready");
    const impatient = here.start(["run", "job", "--json", ...sh("echo never")]);
    const second = here.start(["run", "job", ...sh(script("second"))]);
    impatient.signal("SIGTERM");
    expect(await second.ended).toEqual({ code: 0, signal: null });
    const lines = readFileSync(file, "utf8").trim().split("\n");
    expect(lines).toEqual(["first in", "first out", "second in", "second out"]);
    const { code, signal } = await impatient.ended;
    // If the signal arrives before the handlers are installed, it ends the process directly.
    expect(code ?? signal).toSatisfy((end) => end === 143 || end === "SIGTERM");
  });
});

describe("--once-per", () => {
  test("only one process runs per window; the others exit with 0; the next window runs again", async () => {
    const here = world();
    const run = (name: string, window: string): ReturnType<CliWorld["run"]> =>
      here.run(["run", name, "--once-per", window, "--json", ...sh("echo ran")]);
    const fired = await Promise.all([run("a", "1h"), run("a", "1h"), run("a", "1h")]);
    expect(fired.map(({ exit }) => exit.code)).toEqual([0, 0, 0]);
    expect(fired.map(({ out }) => out).join("")).toBe("ran\n");
    const late = await run("a", "1h");
    expect([late.exit.code, late.out]).toEqual([0, ""]);
    expect(late.err).toContain('"reason":"taken"');
    expect((await run("b", "1s")).out).toBe("ran\n");
    await expect
      .poll(async () => (await run("b", "1s")).out, { timeout: 20_000, interval: 200 })
      .toBe("ran\n");
  });

  test("a window that is too long and a window with --restart are rejected", async () => {
    const here = world();
    const long = await here.run(["run", "cron", "--once-per", "25h", ...sh("echo ran")]);
    expect([long.exit.code, long.out]).toEqual([EXIT.usage, ""]);
    expect(long.err).toContain("--once-per must be from 1s to 24h");
    const both = await here.run(["run", "cron", "--once-per", "1h", "--restart", ...sh(":")]);
    expect(both.exit.code).toBe(EXIT.usage);
  });
});

describe("the group killer", () => {
  test("kills the group of a program that died, but not a group after stop()", async () => {
    const here = world();
    const file = join(here.folder, "pid");
    // A separate killer, for an unrelated process: once stopped, it must not kill that process.
    const other = spawn("sleep", ["60"], {
      detached: true,
      env: { IN: here.folder, ...process.env },
    });
    const killer = new GroupKiller();
    await killer.start(other.pid as number);
    await killer.stop();
    // A SIGKILL would have been sent by now. Allow the kernel some time to deliver it.
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(hasMembers(other.pid as number)).toBe(true);
    const job = here.start(["run", "job", ...sh(`echo $$ > '${file}'; echo ready; sleep 60`)]);
    await job.said("ready");
    job.signal("SIGKILL");
    await job.ended;
    await until("the group is dead", () => !hasMembers(Number(readFileSync(file, "utf8"))), 5_000);
    other.kill("SIGKILL");
  });
});
