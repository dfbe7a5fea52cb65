// Goal: `tenure sim` answers with a summary or a timeline, ends with the right code, refuses nonsense, and a failure comes with a
// short replay. Method: the command itself with a voice that listens; a planted failure for the shrinking.
import { describe, expect, test } from "vitest";
import { findCommand, parseCommand } from "../src/cli/arguments.ts";
import { simCommand } from "../src/cli/commands/sim.ts";
import { simHost } from "../src/runtime/sim-host.ts";
import { planOf } from "../src/sim/plan.ts";
import { runSeed } from "../src/sim/run.ts";
import { replayCommand, shrink } from "../src/sim/shrink.ts";
import { excerpt } from "../src/sim/timeline.ts";
import type { Host } from "../src/sim/world.ts";
import { ListeningVoice } from "./support/listening-voice.ts";

async function sim(...words: string[]): Promise<{ code: number; text: string }> {
  const voice = new ListeningVoice(words.includes("--json"));
  const code = await simCommand(parseCommand(findCommand("sim"), words), voice);
  return { code, text: voice.texts.join("\n") };
}

describe("tenure sim", () => {
  test("many seeds: a summary, and code 0 when all are green", async () => {
    const { code, text } = await sim("--seeds", "1..3");
    expect(code).toBe(0);
    expect(text).toContain("3 seeds on the model of memory");
    expect(text).toContain("No violation, no invalid seed.");
  });

  test("one job: no thread is started, so that the source runs as it is", async () => {
    const { code, text } = await sim("--seeds", "1..30", "--jobs", "1");
    expect(code).toBe(0);
    expect(text).toContain("30 seeds on the model of memory");
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
    const host: Host = {
      closeWorld: simHost.closeWorld,
      eachTurn: (step) => {
        let steps = 0;
        return simHost.eachTurn(() => step() && ++steps < 300);
      },
    };
    const found = await runSeed(5, "memory", host);
    expect(found.verdict.violations.map(({ invariant }) => invariant)).toContain("L1");
    const { changes, outcome, runs } = await shrink(found, host);
    expect(outcome.plan.faults).toEqual([]);
    expect(outcome.plan.programs).toBe(2);
    expect(runs).toBeLessThan(300);
    const again = await runSeed(5, "memory", host, changes);
    expect(again.ended.trace.hash()).toBe(outcome.ended.trace.hash());
    const command = replayCommand(5, "memory", changes);
    expect(command).toContain("tenure sim --seed 5 --store memory --without");
    for (const kind of planOf(5, "memory").kinds) expect(command).toContain(kind);
    expect(
      excerpt(outcome.ended.trace.events, outcome.verdict.violations, 5_000).join("\n"),
    ).toContain("!!!");
  });
});
