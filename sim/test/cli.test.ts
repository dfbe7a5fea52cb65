// Goal: `npm run sim` prints a summary or a timeline, returns the right exit code, rejects invalid
// options, and prints a short replay command for a failure. Method: the command itself with
// recorded output, and a planted failure for shrinking.
import { afterEach, describe, expect, test, vi } from "vitest";
import { parseCommand } from "../../src/cli/parsing/arguments.ts";
import { SIM } from "../cli/definition.ts";
import { explain } from "../cli/explain.ts";
import { simCommand } from "../cli/simulate.ts";
import { createPlan } from "../faults/plan.ts";
import { simHost } from "../host/sim-host.ts";
import { runSeed } from "../run.ts";
import { formatReplayCommand, shrink } from "../shrink.ts";
import { excerpt } from "../timeline.ts";
import type { Host } from "../world/world.ts";
import { RecordedOutput } from "./support/recorded-output.ts";

async function sim(...words: string[]): Promise<{ code: number; text: string }> {
  const output = new RecordedOutput(words.includes("--json"));
  const code = await simCommand(parseCommand(SIM, words), output);
  return { code, text: output.texts.join("\n") };
}

/** A summary as an object, without its duration. */
function withoutTime(text: string): object {
  const { seconds: _, ...rest } = JSON.parse(text) as { readonly seconds: number };
  return rest;
}

describe("npm run sim", () => {
  test("prints a summary of many seeds and returns code 0 if none fails", async () => {
    const { code, text } = await sim("--seeds", "1..3");
    expect(code).toBe(0);
    expect(text).toContain("3 seeds on the model of memory");
    expect(text).toContain("No violation, no invalid seed.");
  });

  test("gives the same summary with several threads as with one", async () => {
    const inThreads = await sim("--seeds", "1..60", "--jobs", "2", "--json");
    const inOne = await sim("--seeds", "1..60", "--jobs", "1", "--json");
    expect(inThreads.code).toBe(0);
    expect(withoutTime(inThreads.text)).toEqual(withoutTime(inOne.text));
  });

  test("prints the summary as one object with --json", async () => {
    const { text } = await sim("--seeds", "4..5", "--store", "etcd", "--json");
    expect(JSON.parse(text)).toMatchObject({
      store: "etcd",
      seeds: 2,
      isGreen: true,
      findings: [],
    });
  });

  test("prints the timeline, the faults and the hash of one seed, identical every time", async () => {
    const first = await sim("--seed", "7");
    expect(first.code).toBe(0);
    expect(first.text).toMatch(/holds lock\/0 with \d/);
    expect(first.text).toContain("CALM");
    expect(first.text).toMatch(/trace [0-9a-f]{16}/);
    expect(await sim("--seed", "7")).toEqual(first);
    const all = await sim("--seed", "7", "--all");
    expect(all.text.length).toBeGreaterThan(first.text.length);
  });

  test.each([
    [["--seeds", "5"], "a range such as 1..1000"],
    [["--seeds", "5..1"], "a range such as 1..1000"],
    [["--store", "oracle"], "--store must be one of memory, etcd"],
    [["--seed", "1", "--without", "rain"], 'no fault "rain"'],
  ])("rejects %j", async (words, message) => {
    await expect(sim(...words)).rejects.toThrow(message);
  });
});

describe("shrinking", () => {
  test("leaves out what the failure does not need, and the command replays it", async () => {
    // A run that ends early makes no progress in the calm phase, whatever the faults are.
    const host = createHostEndingAfter(300);
    const found = await runSeed(5, "memory", host);
    expect(found.verdict.violations.map(({ invariant }) => invariant)).toContain("L1");
    const { changes, outcome, runs } = await shrink(found, host);
    expect(outcome.plan.faults).toEqual([]);
    expect(outcome.plan.programs).toBe(2);
    expect(runs).toBeLessThan(300);
    const again = await runSeed(5, "memory", host, changes);
    expect(again.result.trace.hash()).toBe(outcome.result.trace.hash());
    const command = formatReplayCommand(5, "memory", changes);
    expect(command).toContain("npm run sim -- --seed 5 --store memory --without");
    for (const kind of createPlan(5, "memory").kinds) expect(command).toContain(kind);
    expect(
      excerpt(outcome.result.trace.events, outcome.verdict.violations, 5_000).join("\n"),
    ).toContain("!!!");
  });

  test("skips an invalid run and explains the first one with a violation", async () => {
    const output = new RecordedOutput(false);
    const planned = { invariant: "L1", message: "planned", at: 0 };
    const findings = [
      { seed: 4, violations: [], invalid: ["only 3 faults"] },
      { seed: 5, violations: [planned], invalid: [] },
    ];
    await explain(findings.slice(0, 1), "memory", simHost, output);
    expect(output.texts).toEqual([]);
    await explain(findings, "memory", createHostEndingAfter(300), output);
    expect(output.texts.join()).toMatch(/Seed 5, shrunk .*Replay: npm run sim -- --seed 5 /s);
  });

  test("rejects a run without a violation", async () => {
    const green = await runSeed(5, "memory", simHost);
    await expect(shrink(green, simHost)).rejects.toThrow("cannot be shrunk");
  });
});

describe("a run that is not repeatable", () => {
  afterEach(() => vi.restoreAllMocks());

  /** Cuts every second run short. */
  function cutEverySecondRun(): void {
    const { eachTurn } = simHost;
    let runs = 0;
    vi.spyOn(simHost, "eachTurn").mockImplementation((step) => {
      runs += 1;
      const turnsMax = runs % 2 === 0 ? 300 : Number.POSITIVE_INFINITY;
      let turns = 0;
      return eachTurn(() => step() && ++turns < turnsMax);
    });
  }

  test("is reported with the first event that differs, and not shrunk", async () => {
    cutEverySecondRun();
    const { code, text } = await sim("--seeds", "1..2", "--twice");
    expect(code).toBe(1);
    expect(text).toContain("determinism: two runs of the same seed differ");
    expect(text).not.toContain("shrunk");
    expect(text).toMatch(/Seed 1: .* Event \d+ was \[at [\d.]+, who .*\], then \[the end\]/);
    expect(text).toMatch(/Replay: npm run sim -- --seed 1 --store memory --twice$/);
  });

  test("is reported again by the replay command", async () => {
    expect((await sim("--seed", "1", "--twice")).code).toBe(0);
    cutEverySecondRun();
    const { code, text } = await sim("--seed", "1", "--twice");
    expect(code).toBe(1);
    expect(text).toMatch(/determinism: two runs of the same seed differ\. Event \d+ was/);
  });

  test("is not shrunk if the violation does not occur again", async () => {
    const output = new RecordedOutput(false);
    const planned = { invariant: "S3", message: "planned", at: 0 };
    const findings = [{ seed: 5, violations: [planned], invalid: [] }];
    await explain(findings, "etcd", simHost, output);
    expect(output.texts.join()).toMatch(
      /does not occur when .* is run again.*--store etcd --twice$/s,
    );
  });
});

/** A host that ends every run after this many turns. */
function createHostEndingAfter(turnsMax: number): Host {
  return {
    ...simHost,
    eachTurn: (step) => {
      let turns = 0;
      return simHost.eachTurn(() => step() && ++turns < turnsMax);
    },
  };
}
