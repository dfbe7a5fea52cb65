// Goal: the command line is parsed as the help describes, and invalid input is rejected with
// advice. Method: the parsers directly, and every text that is generated from the definitions.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { COMMANDS } from "../../src/cli/definitions/commands.ts";
import { GLOBAL_OPTIONS } from "../../src/cli/definitions/definition.ts";
import { UsageError } from "../../src/cli/errors.ts";
import { EXIT, exitCodes } from "../../src/cli/exit-codes.ts";
import { formatCompletionScript } from "../../src/cli/help/completion.ts";
import { formatCommandHelp, formatOverallHelp, listExitNames } from "../../src/cli/help/help.ts";
import { heldSince, leaseRow } from "../../src/cli/output/lease-view.ts";
import { Output } from "../../src/cli/output/output.ts";
import { printable } from "../../src/cli/output/text.ts";
import { findCommand, type Parsed, parseCommand } from "../../src/cli/parsing/arguments.ts";
import { formatDuration, formatElapsed, parseDuration } from "../../src/cli/parsing/duration.ts";
import { planRunTiming, planTimingOptions } from "../../src/cli/parsing/timing-options.ts";
import { planTiming } from "../../src/core/timing.ts";
import { formatManualPage } from "../support/cli/manual-page.ts";

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

  test("are formatted such that parsing gives the same value, rounded up", () => {
    for (const ms of [0, 1, 20, 999, 1_000, 1_100, 1_233, 10_000, 60_000, 90_000, 3_600_000]) {
      expect(parseDuration(formatDuration(ms), "")).toBe(ms);
    }
    expect(formatDuration(3_333.33)).toBe("3.34s");
    expect(formatDuration(0.12)).toBe("0.2ms");
  });

  test("that have elapsed are formatted with at most two units, rounded down", () => {
    const format = (s: number): string => formatElapsed(s * 1_000);
    expect([0, 0.9, 59.9, 60, 192].map(format)).toEqual(["0s", "0s", "59s", "1m 0s", "3m 12s"]);
    expect([3_599, 3_600, 7_512].map(format)).toEqual(["59m 59s", "1h 0m", "2h 5m"]);
    expect([86_399, 86_400, 356_400].map(format)).toEqual(["23h 59m", "1d 0h", "4d 3h"]);
  });

  test("since a grant are printed after its local time", () => {
    const at = new Date(2026, 10, 7, 21, 5, 3).getTime();
    expect(heldSince(192_000, at + 192_000)).toBe("2026-11-07 21:05:03 (3m 12s)");
  });

  test("are a dash in the table if the store does not know when the lease was granted", () => {
    const holder = { holderId: "h", sessionId: "s", token: 7n, expiresInMs: 9_800 };
    expect(leaseRow({ resource: "r", holder })).toEqual(["r", "h", "7", "-", "9.8 s", ""]);
    const known = { ...holder, heldForMs: 192_000 };
    expect(leaseRow({ resource: "r", holder: known })[3]).toBe("3m 12s");
  });
});

describe("arguments", () => {
  test("options may come before and after the resource; words after -- belong to the command", () => {
    const parsed = parse("run", "--ttl", "5s", "job", "--wait=1s", "--", "ls", "--json", "--", "x");
    expect(parsed.positionals).toEqual(["job"]);
    expect(parsed.command).toEqual(["ls", "--json", "--", "x"]);
    expect(parsed.options.duration("ttl")).toBe(5_000);
    expect(parsed.options.duration("wait")).toBe(1_000);
    expect(parsed.options.has("json")).toBe(false);
  });

  test.each<[string[], RegExp]>([
    [["rnu"], /no command "rnu"\. Did you mean run\? Commands: run, elect/],
    [["zzzzzzzz"], /no command "zzzzzzzz"\. Commands:/],
    [
      ["redis://u:hush@h"],
      /^There is no command \(not shown: it may contain a password\)\. Commands:/,
    ],
    [
      ["doctor", "redis//u:hush@h"],
      /does not accept the argument \(not shown: it may contain a password\)/,
    ],
    [
      ["guard", "redis://u:hush@h"],
      /^\w+ is one of .*, got \(not shown: it may contain a password\)/,
    ],
    [["run", "--tll", "1s", "job", "--", "x"], /no option --tll\. Did you mean --ttl\?/],
    [["ls", "-x"], /no option -x\./],
    [["run", "job", "--ttl"], /--ttl needs a value/],
    [["run", "job", "--ttl", "--json", "--", "x"], /--ttl needs a value/],
    [["run", "job", "--no-wait=1", "--", "x"], /--no-wait is a switch/],
    [["run", "--", "x"], /needs RESOURCE/],
    [["run", "job", "x"], /does not accept the argument "x"\. The command to run comes after --/],
    [["run", "job"], /needs the command to run after --/],
    [["elect", "job", "--"], /needs the command to run after --/],
    [["ls", "a", "b"], /does not accept the argument "b"/],
    [["ls", "--", "x"], /runs no command/],
    [["completion", "tcsh"], /SHELL is one of bash, zsh, fish, got "tcsh"/],
  ])("%j is rejected", (argv, message) => {
    const [name = "", ...rest] = argv;
    const parsing = (): Parsed => parse(name, ...rest);
    expect(parsing).toThrow(UsageError);
    expect(parsing).toThrow(message);
  });

  test("counts are whole numbers above 0", () => {
    expect(parse("plan", "--leases", "7").options.count("leases")).toBe(7);
    for (const bad of ["0", "-1", "1.5", "x"]) {
      expect(() => parse("plan", `--leases=${bad}`).options.count("leases")).toThrow(UsageError);
    }
  });
});

describe("the durations of a run", () => {
  const planRun = (...argv: string[]): ReturnType<typeof planRunTiming> =>
    planRunTiming(parse("run", "job", ...argv, "--", "x").options);

  test("L3: after one lost renewal, the time between SIGTERM and SIGKILL still fits", () => {
    for (const argv of [[], ["--ttl", "3s"], ["--ttl", "1h"], ["--kill-after", "6s"]]) {
      const { timing, killAfterMs } = planRun(...argv);
      const used = 2 * timing.renewEveryMs + timing.roundTripMs + killAfterMs;
      expect(used).toBeLessThanOrEqual(timing.ttlMs - timing.marginMs + 1e-9);
      expect(planTiming(timing)).toEqual(timing);
    }
  });

  test("a --kill-after that does not fit is rejected with the nearest valid durations", () => {
    expect(() => planRun("--kill-after", "9s")).toThrow(
      /Nearest: --kill-after 7\.8s or --ttl 11\.2s/,
    );
    expect(planRun("--kill-after", "7.8s").killAfterMs).toBe(7_800);
    expect(planRun("--kill-after", "9s", "--ttl", "11.3s").killAfterMs).toBe(9_000);
    expect(() => planRun("--renew-every", "4s")).toThrow(/availability|kill-after/);
  });

  test("impossible durations are rejected with the inequality and the options that satisfy it", () => {
    expect(() => planTimingOptions({ ttlMs: 10_000, marginMs: 10 })).toThrow(
      /safety inequality margin >= clock-error \+ round-trip.*Nearest: --margin 1\.1s/,
    );
    expect(() => planTimingOptions({ ttlMs: 10_000, renewEveryMs: 5_000 })).toThrow(
      /availability inequality.*Nearest: --renew-every 3950ms/,
    );
    expect(() => planTimingOptions({ ttlMs: 1_000 })).toThrow(/a ttl below 3s needs --clock-error/);
  });
});

describe("texts generated from the definitions", () => {
  test("overall help names every command and every exit code", () => {
    const help = formatOverallHelp();
    for (const { name, summary } of COMMANDS) {
      expect(help).toContain(name);
      expect(help).toContain(summary);
    }
    for (const { code } of exitCodes()) expect(help).toMatch(new RegExp(`^ {2}${code} `, "m"));
  });

  test.each(COMMANDS)(
    "the help of $name contains its options, examples and exit codes",
    (definition) => {
      const help = formatCommandHelp(definition);
      for (const { name } of [...definition.options, ...GLOBAL_OPTIONS])
        expect(help).toContain(`--${name}`);
      expect(definition.examples.length).toBeGreaterThan(0);
      for (const { line } of definition.examples) expect(help).toContain(line);
      for (const name of listExitNames(definition)) expect(help).toContain(String(EXIT[name]));
      expect(Math.max(...help.split("\n").map((line) => line.length))).toBeLessThanOrEqual(100);
    },
  );

  test.each(COMMANDS)("$name accepts its own examples", (definition) => {
    for (const { line } of definition.examples) {
      const words = /tenure ([^<>|)]+)/.exec(line)?.[1]?.trim().split(" ") ?? [];
      expect(words[0]).toBe(definition.name);
      expect(() => parse(...(words as [string, ...string[]]))).not.toThrow();
    }
  });

  test.each(["bash", "zsh", "fish"])(
    "completion for %s contains every command and option",
    (shell) => {
      const script = formatCompletionScript(shell);
      for (const { name, options } of COMMANDS) {
        expect(script).toContain(name);
        for (const option of options) {
          expect(script).toContain(shell === "fish" ? `-l ${option.name}` : `--${option.name}`);
        }
      }
    },
  );

  test("man/tenure.1 is up to date (update it with vitest -u)", async () => {
    await expect(formatManualPage()).toMatchFileSnapshot(join(root, "man", "tenure.1"));
  });

  test("docs/cli.md lists every exit code, command and option", () => {
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

describe("control characters from other processes do not reach the terminal", () => {
  const hostile = "a\u001B[2Jb\nc\u009Bd";
  const masked = "a\uFFFD[2Jb\uFFFDc\uFFFDd";

  /** Captures what an Output writes to stdout and stderr. */
  function capture(json: boolean, write: (output: Output) => void): string {
    const texts: string[] = [];
    const spies = [process.stdout, process.stderr].map((stream) =>
      vi.spyOn(stream, "write").mockImplementation((text) => texts.push(String(text)) > 0),
    );
    try {
      write(new Output(json));
    } finally {
      for (const spy of spies) spy.mockRestore();
    }
    return texts.join("");
  }

  test("in a line of text", () => {
    expect(printable(hostile)).toBe(masked);
  });

  test("in a result, which keeps its lines and styles", () => {
    const { hasColors } = process.stdout;
    process.stdout.hasColors = () => true;
    onTestFinished(() => {
      process.stdout.hasColors = hasColors;
    });
    const lines = ["first", hostile, { style: "red", text: hostile }] as const;
    const text = capture(false, (output) =>
      output.answer(
        () => lines,
        () => undefined,
      ),
    );
    expect(text).toBe(`first\n${masked}\n\u001B[31m${masked}\u001B[0m\n`);
  });

  test("in a note and in an error message, whose further lines are indented", () => {
    expect(capture(false, (output) => output.note(hostile, {}))).toBe(`tenure: ${masked}\n`);
    expect(capture(false, (output) => output.fail(hostile, {}))).toBe(
      "tenure: a\uFFFD[2Jb\n  c\uFFFDd\n",
    );
  });

  test("in JSON, which still has the same value", () => {
    const text = capture(true, (output) => output.note("", { hostile }));
    expect(text).toBe('{"hostile":"a\\u001b[2Jb\\nc\\u009bd"}\n');
    expect(JSON.parse(text)).toEqual({ hostile });
  });
});
