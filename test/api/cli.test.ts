// Goal: the words of the command line mean what help says, and whatever they do not mean is refused with a way out. Method: the
// parsers on their own, and every text that is made from the definitions.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { findCommand, type Parsed, parseCommand } from "../../src/cli/arguments.ts";
import { completionScript } from "../../src/cli/completion.ts";
import { COMMANDS, GLOBAL_OPTIONS } from "../../src/cli/definitions.ts";
import { formatDuration, formatElapsed, parseDuration } from "../../src/cli/duration.ts";
import { EXIT, exitCodes } from "../../src/cli/exit-codes.ts";
import { codesOf, commandHelp, overallHelp } from "../../src/cli/help.ts";
import { heldSince, leaseRow } from "../../src/cli/lease-view.ts";
import { manualPage } from "../../src/cli/manual.ts";
import { printable } from "../../src/cli/text.ts";
import { planFrom, runTiming } from "../../src/cli/timing-options.ts";
import { UsageError } from "../../src/cli/usage-error.ts";
import { Voice } from "../../src/cli/voice.ts";
import { planTiming } from "../../src/core/timing.ts";

const root = fileURLToPath(new URL("../..", import.meta.url));
const parse = (name: string, ...argv: string[]): Parsed => parseCommand(findCommand(name), argv);

describe("durations", () => {
  test("are a number with a unit", () => {
    const written = ["500ms", "10s", "2m", "1h", "1.5s", "0ms"];
    expect(written.map((text) => parseDuration(text, "--ttl"))).toEqual([
      500, 10_000, 120_000, 3_600_000, 1_500, 0,
    ]);
    for (const bad of ["10", "s", "-1s", "1e3ms", "10 s", "1d", "", "ten", "1s1s", "NaNs"]) {
      expect(() => parseDuration(bad, "--ttl"), bad).toThrow(/--ttl needs a number with a unit/);
    }
  });

  test("are shown so that reading them again gives the same, or a little more", () => {
    for (const ms of [0, 1, 20, 999, 1_000, 1_100, 1_233, 10_000, 60_000, 90_000, 3_600_000]) {
      expect(parseDuration(formatDuration(ms), "")).toBe(ms);
    }
    expect(formatDuration(3_333.33)).toBe("3.34s");
    expect(formatDuration(0.12)).toBe("0.2ms");
  });

  test("that have passed are shown in two units at most, rounded down", () => {
    const shown = (s: number): string => formatElapsed(s * 1_000);
    expect([0, 0.9, 59.9, 60, 192].map(shown)).toEqual(["0s", "0s", "59s", "1m 0s", "3m 12s"]);
    expect([3_599, 3_600, 7_512].map(shown)).toEqual(["59m 59s", "1h 0m", "2h 5m"]);
    expect([86_399, 86_400, 356_400].map(shown)).toEqual(["23h 59m", "1d 0h", "4d 3h"]);
  });

  test("since a lease was granted stand behind that time, which is local", () => {
    const at = new Date(2026, 10, 7, 21, 5, 3).getTime();
    expect(heldSince(192_000, at + 192_000)).toBe("2026-11-07 21:05:03 (3m 12s)");
  });

  test("are a dash in the table where the store does not know since when a lease is held", () => {
    const holder = { holderId: "h", sessionId: "s", token: 7n, expiresInMs: 9_800 };
    expect(leaseRow({ resource: "r", holder })).toEqual(["r", "h", "7", "-", "9.8 s", ""]);
    const known = { ...holder, heldForMs: 192_000 };
    expect(leaseRow({ resource: "r", holder: known })[3]).toBe("3m 12s");
  });
});

describe("arguments", () => {
  test("options may stand before and behind the resource; what follows -- is the command's", () => {
    const parsed = parse("run", "--ttl", "5s", "job", "--wait=1s", "--", "ls", "--json", "--", "x");
    expect(parsed.positionals).toEqual(["job"]);
    expect(parsed.command).toEqual(["ls", "--json", "--", "x"]);
    expect(parsed.options.duration("ttl")).toBe(5_000);
    expect(parsed.options.duration("wait")).toBe(1_000);
    expect(parsed.options.has("json")).toBe(false);
  });

  test.each<[string[], RegExp]>([
    [["rnu"], /no command "rnu"\. Did you mean run\? Known are run, elect/],
    [["zzzzzzzz"], /no command "zzzzzzzz"\. Known are/],
    [["redis://u:hush@h"], /^There is no command a word that may hold a password\. Known are/],
    [["doctor", "redis//u:hush@h"], /no place for a word that may hold a password/],
    [["guard", "redis://u:hush@h"], /^\w+ is one of .*, got a word that may hold a password/],
    [["run", "--tll", "1s", "job", "--", "x"], /no option --tll\. Did you mean --ttl\?/],
    [["ls", "-x"], /no option -x\./],
    [["run", "job", "--ttl"], /--ttl needs a value/],
    [["run", "job", "--ttl", "--json", "--", "x"], /--ttl needs a value/],
    [["run", "job", "--no-wait=1", "--", "x"], /--no-wait is a switch/],
    [["run", "--", "x"], /needs RESOURCE/],
    [["run", "job", "x"], /no place for "x"\. The command to run comes after --/],
    [["run", "job"], /needs the command to run after --/],
    [["elect", "job", "--"], /needs the command to run after --/],
    [["ls", "a", "b"], /no place for "b"/],
    [["ls", "--", "x"], /runs no command/],
    [["completion", "tcsh"], /SHELL is one of bash, zsh, fish, got "tcsh"/],
  ])("%j is refused", (argv, message) => {
    const [name = "", ...rest] = argv;
    const parsing = (): Parsed => parse(name, ...rest);
    expect(parsing).toThrow(UsageError);
    expect(parsing).toThrow(message);
  });

  test("counts are whole and above 0", () => {
    expect(parse("plan", "--leases", "7").options.count("leases")).toBe(7);
    for (const bad of ["0", "-1", "1.5", "x"]) {
      expect(() => parse("plan", `--leases=${bad}`).options.count("leases")).toThrow(UsageError);
    }
  });
});

describe("the durations of a run", () => {
  const timingOf = (...argv: string[]): ReturnType<typeof runTiming> =>
    runTiming(parse("run", "job", ...argv, "--", "x").options);

  test("L3: after one lost renewal there is still the time between SIGTERM and SIGKILL", () => {
    for (const argv of [[], ["--ttl", "3s"], ["--ttl", "1h"], ["--kill-after", "6s"]]) {
      const { timing, killAfterMs } = timingOf(...argv);
      const used = 2 * timing.renewEveryMs + timing.roundTripMs + killAfterMs;
      expect(used).toBeLessThanOrEqual(timing.ttlMs - timing.marginMs + 1e-9);
      expect(planTiming(timing)).toEqual(timing);
    }
  });

  test("a --kill-after that does not fit is refused with the nearest that do, and those are accepted", () => {
    expect(() => timingOf("--kill-after", "9s")).toThrow(
      /Nearest: --kill-after 7\.8s or --ttl 11\.2s/,
    );
    expect(timingOf("--kill-after", "7.8s").killAfterMs).toBe(7_800);
    expect(timingOf("--kill-after", "9s", "--ttl", "11.3s").killAfterMs).toBe(9_000);
    expect(() => timingOf("--renew-every", "4s")).toThrow(/availability|kill-after/);
  });

  test("impossible numbers name the inequality and command-line options that fix it", () => {
    expect(() => planFrom({ ttlMs: 10_000, marginMs: 10 })).toThrow(
      /safety inequality margin >= clock-error \+ round-trip.*Nearest: --margin 1\.1s/,
    );
    expect(() => planFrom({ ttlMs: 10_000, renewEveryMs: 5_000 })).toThrow(
      /availability inequality.*Nearest: --renew-every 3950ms/,
    );
    expect(() => planFrom({ ttlMs: 1_000 })).toThrow(/a ttl below 3s needs --clock-error/);
  });
});

describe("what is made from the definitions", () => {
  test("overall help names every command and every exit code", () => {
    const help = overallHelp();
    for (const { name, summary } of COMMANDS) {
      expect(help).toContain(name);
      expect(help).toContain(summary);
    }
    for (const { code } of exitCodes()) expect(help).toMatch(new RegExp(`^ {2}${code} `, "m"));
  });

  test.each(COMMANDS)("help of $name has its options, an example and its codes", (definition) => {
    const help = commandHelp(definition);
    for (const { name } of [...definition.options, ...GLOBAL_OPTIONS])
      expect(help).toContain(`--${name}`);
    expect(definition.examples.length).toBeGreaterThan(0);
    for (const { line } of definition.examples) expect(help).toContain(line);
    for (const name of codesOf(definition)) expect(help).toContain(String(EXIT[name]));
    expect(Math.max(...help.split("\n").map((line) => line.length))).toBeLessThanOrEqual(100);
  });

  test.each(COMMANDS)("the examples of $name are command lines that it accepts", (definition) => {
    for (const { line } of definition.examples) {
      const words = /tenure ([^<>|)]+)/.exec(line)?.[1]?.trim().split(" ") ?? [];
      expect(words[0]).toBe(definition.name);
      expect(() => parse(...(words as [string, ...string[]]))).not.toThrow();
    }
  });

  test.each(["bash", "zsh", "fish"])("completion for %s has every command and option", (shell) => {
    const script = completionScript(shell);
    for (const { name, options } of COMMANDS) {
      expect(script).toContain(name);
      for (const option of options) {
        expect(script).toContain(shell === "fish" ? `-l ${option.name}` : `--${option.name}`);
      }
    }
  });

  test("man/tenure.1 is up to date (mend it with vitest -u)", async () => {
    await expect(manualPage()).toMatchFileSnapshot(join(root, "man", "tenure.1"));
  });

  test("docs/cli.md has the exit codes, and every command with all of its options", () => {
    const page = readFileSync(join(root, "docs", "cli.md"), "utf8");
    for (const { code, meaning } of exitCodes()) {
      expect(page).toContain(`| ${code === EXIT.signal ? "128+n" : code} | ${meaning} |`);
    }
    for (const { name, options } of COMMANDS) {
      expect(page).toContain(`tenure ${name}`);
      for (const option of options) expect(page).toContain(`--${option.name}`);
    }
  });
});

describe("control characters of others do not reach the terminal", () => {
  const hostile = "a\u001B[2Jb\nc\u009Bd";
  const masked = "a\uFFFD[2Jb\uFFFDc\uFFFDd";

  /** What a voice writes to stdout and stderr. */
  function written(json: boolean, speak: (voice: Voice) => void): string {
    const texts: string[] = [];
    const spies = [process.stdout, process.stderr].map((stream) =>
      vi.spyOn(stream, "write").mockImplementation((text) => texts.push(String(text)) > 0),
    );
    try {
      speak(new Voice(json));
    } finally {
      for (const spy of spies) spy.mockRestore();
    }
    return texts.join("");
  }

  test("in a line of text", () => {
    expect(printable(hostile)).toBe(masked);
  });

  test("in an answer, whose own lines and styles stay", () => {
    const { hasColors } = process.stdout;
    process.stdout.hasColors = () => true;
    onTestFinished(() => {
      process.stdout.hasColors = hasColors;
    });
    const lines = ["first", hostile, { style: "red", text: hostile }] as const;
    const text = written(false, (voice) =>
      voice.answer(
        () => lines,
        () => undefined,
      ),
    );
    expect(text).toBe(`first\n${masked}\n\u001B[31m${masked}\u001B[0m\n`);
  });

  test("in a note and in the message of a failure, whose further lines are indented", () => {
    expect(written(false, (voice) => voice.note(hostile, {}))).toBe(`tenure: ${masked}\n`);
    expect(written(false, (voice) => voice.fail(hostile, {}))).toBe(
      "tenure: a\uFFFD[2Jb\n  c\uFFFDd\n",
    );
  });

  test("in JSON, which means the same nevertheless", () => {
    const text = written(true, (voice) => voice.note("", { hostile }));
    expect(text).toBe('{"hostile":"a\\u001b[2Jb\\nc\\u009bd"}\n');
    expect(JSON.parse(text)).toEqual({ hostile });
  });
});
