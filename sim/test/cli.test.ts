// Goal: `npm run sim` answers with a summary or a timeline, ends with the right code, refuses nonsense, and a failure comes with a
// short replay. Method: the command itself with a voice that listens; a planted failure for the shrinking.
import { afterEach, describe, expect, test, vi } from "vitest";
import { parseCommand } from "../../src/cli/parsing/arguments.ts";
import { SIM } from "../cli/definition.ts";
import { explain } from "../cli/explain.ts";
import { simCommand } from "../cli/simulate.ts";
import { planOf } from "../faults/plan.ts";
import { simHost } from "../host/sim-host.ts";
import { runSeed } from "../run.ts";
import { replayCommand, shrink } from "../shrink.ts";
import { excerpt } from "../timeline.ts";
import type { Host } from "../world/world.ts";
import { ListeningVoice } from "./support/listening-voice.ts";

async function sim(...words: string[]): Promise<{ code: number; text: string }> {
  const voice = new ListeningVoice(words.includes("--json"));
  const code = await simCommand(parseCommand(SIM, words), voice);
  return { code, text: voice.texts.join("\n") };
}

/** A summary as an object, without the time that the run took. */
function withoutTime(text: string): object {
  const { seconds: _, ...rest } = JSON.parse(text) as { readonly seconds: number };
  return rest;
}

describe("npm run sim", () => {
  test("many seeds: a summary, and code 0 when all are green", async () => {
    const { code, text } = await sim("--seeds", "1..3");
    expect(code).toBe(0);
    expect(text).toContain("3 seeds on the model of memory");
    expect(text).toContain("No violation, no invalid seed.");
  });

  test("threads give the same summary as one thread", async () => {
    const inThreads = await sim("--seeds", "1..60", "--jobs", "2", "--json");
    const inOne = await sim("--seeds", "1..60", "--jobs", "1", "--json");
    expect(inThreads.code).toBe(0);
    expect(withoutTime(inThreads.text)).toEqual(withoutTime(inOne.text));
  });

  test("in JSON: the same as one object", async () => {
    const { text } = await sim("--seeds", "4..5", "--store", "etcd", "--json");
    expect(JSON.parse(text)).toMatchObject({
      store: "etcd",
      seeds: 2,
      isGreen: true,
      findings: [],
    });
  });

  test("one seed: its timeline, its faults and its hash, the same every time", async () => {
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
    [["--store", "oracle"], "--store is one of memory, etcd"],
    [["--seed", "1", "--without", "rain"], 'no fault "rain"'],
  ])("refuses %j", async (words, message) => {
    await expect(sim(...words)).rejects.toThrow(message);
  });
});

describe("shrinking", () => {
  test("leaves out what the failure does not need, and the command shows it again", async () => {
    // A world that stops in the middle of the day: nobody gets on in the calm, whatever the faults were.
    const host = endingAfter(300);
    const found = await runSeed(5, "memory", host);
    expect(found.verdict.violations.map(({ invariant }) => invariant)).toContain("L1");
    const { changes, outcome, runs } = await shrink(found, host);
    expect(outcome.plan.faults).toEqual([]);
    expect(outcome.plan.programs).toBe(2);
    expect(runs).toBeLessThan(300);
    const again = await runSeed(5, "memory", host, changes);
    expect(again.ended.trace.hash()).toBe(outcome.ended.trace.hash());
    const command = replayCommand(5, "memory", changes);
    expect(command).toContain("npm run sim -- --seed 5 --store memory --without");
    for (const kind of planOf(5, "memory").kinds) expect(command).toContain(kind);
    expect(
      excerpt(outcome.ended.trace.events, outcome.verdict.violations, 5_000).join("\n"),
    ).toContain("!!!");
  });

  test("a day that is only invalid is not explained in place of one with a violation", async () => {
    const voice = new ListeningVoice(false);
    const planned = { invariant: "L1", message: "planned", at: 0 };
    const findings = [
      { seed: 4, violations: [], invalid: ["only 3 faults"] },
      { seed: 5, violations: [planned], invalid: [] },
    ];
    await explain(findings.slice(0, 1), "memory", simHost, voice);
    expect(voice.texts).toEqual([]);
    await explain(findings, "memory", endingAfter(300), voice);
    expect(voice.texts.join()).toMatch(/Seed 5, shrunk .*Replay: npm run sim -- --seed 5 /s);
  });

  test("a green day is refused", async () => {
    const green = await runSeed(5, "memory", simHost);
    await expect(shrink(green, simHost)).rejects.toThrow("cannot be shrunk");
  });
});

describe("a day that is not the same twice", () => {
  afterEach(() => vi.restoreAllMocks());

  /** Every other day of a seed breaks off. */
  function everyOtherBreaksOff(): void {
    const { eachTurn } = simHost;
    let days = 0;
    vi.spyOn(simHost, "eachTurn").mockImplementation((step) => {
      days += 1;
      const turnsMax = days % 2 === 0 ? 300 : Number.POSITIVE_INFINITY;
      let turns = 0;
      return eachTurn(() => step() && ++turns < turnsMax);
    });
  }

  test("is told by the first event that differs, and never shrunk", async () => {
    everyOtherBreaksOff();
    const { code, text } = await sim("--seeds", "1..2", "--twice");
    expect(code).toBe(1);
    expect(text).toContain("determinism: the same seed gave another day");
    expect(text).not.toContain("shrunk");
    expect(text).toMatch(/Seed 1: .* Event \d+ was \[at [\d.]+, who .*\], then \[the end\]/);
    expect(text).toMatch(/Replay: npm run sim -- --seed 1 --store memory --twice$/);
  });

  test("is shown again by that command", async () => {
    expect((await sim("--seed", "1", "--twice")).code).toBe(0);
    everyOtherBreaksOff();
    const { code, text } = await sim("--seed", "1", "--twice");
    expect(code).toBe(1);
    expect(text).toMatch(/determinism: the same seed gave another day\. Event \d+ was/);
  });

  test("one whose violation is gone when it is run again is not shrunk to a green day", async () => {
    const voice = new ListeningVoice(false);
    const planned = { invariant: "S3", message: "planned", at: 0 };
    const findings = [{ seed: 5, violations: [planned], invalid: [] }];
    await explain(findings, "etcd", simHost, voice);
    expect(voice.texts.join()).toMatch(/is not found when .* is run again.*--store etcd --twice$/s);
  });
});

/** A world that stops in the middle of the day. */
function endingAfter(turnsMax: number): Host {
  return {
    ...simHost,
    eachTurn: (step) => {
      let turns = 0;
      return simHost.eachTurn(() => step() && ++turns < turnsMax);
    },
  };
}
