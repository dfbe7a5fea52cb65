// The `npm run sim` command: runs many seeds and prints a summary, or one seed and prints its
// timeline. Scenes are in scene.ts.

import { availableParallelism } from "node:os";
import { UsageError } from "../../src/cli/errors.ts";
import { EXIT } from "../../src/cli/exit-codes.ts";
import type { Output } from "../../src/cli/output/output.ts";
import type { Command, Options } from "../../src/cli/parsing/arguments.ts";
import { systemParts } from "../../src/runtime/system.ts";
import { compareTraces } from "../compare-traces.ts";
import { type Changes, FAULT_KINDS, type FaultKind } from "../faults/plan.ts";
import { simHost } from "../host/sim-host.ts";
import { loadEngine, MODEL_NAMES, type Outcome, runSeed } from "../run.ts";
import type { Finding, Summary } from "../swarm.ts";
import { timeline } from "../timeline.ts";
import { SCENE_NAMES, SIM } from "./definition.ts";
import { explain } from "./explain.ts";
import { runInThreads } from "./threads.ts";

const DEFAULT_SEEDS = "1..1000";
const PROGRESS_EVERY_MS = 250;

export const simCommand: Command = async ({ options, positionals }, output) => {
  const [scene] = positionals;
  rejectMixedOptions(options, scene);
  if (scene !== undefined) {
    const { sceneCommand } = await import("./scene.ts");
    return sceneCommand(scene, options, output);
  }
  const store = options.text("store") ?? "memory";
  if (!MODEL_NAMES.includes(store)) {
    const known = MODEL_NAMES.join(", ");
    throw new UsageError(`--store must be one of ${known}, got ${JSON.stringify(store)}.`);
  }
  await loadEngine(store);
  const seed = options.count("seed");
  return seed === undefined
    ? simulateMany(options, store, output)
    : simulateOne(seed, store, options, output);
};

async function simulateOne(
  seed: number,
  store: string,
  options: Options,
  output: Output,
): Promise<number> {
  const changes = parseChanges(options);
  const outcome = await runSeed(seed, store, simHost, changes);
  const again = options.has("twice") ? await runSeed(seed, store, simHost, changes) : undefined;
  const differs = again && compareTraces(outcome.result.trace, again.result.trace);
  const { verdict } = outcome;
  const violations = [...(differs === undefined ? [] : [differs]), ...verdict.violations];
  return answerOne({ ...outcome, verdict: { ...verdict, violations } }, options, output);
}

/** Rejects options that would be ignored. */
function rejectMixedOptions(options: Options, scene: string | undefined): void {
  const sceneOptions = ["out", "no-page", "force"];
  const all = SIM.options.map(({ name }) => name);
  const seedOptions = all.filter((name) => !sceneOptions.includes(name));
  const wrong = (scene === undefined ? sceneOptions : seedOptions).find((name) =>
    options.has(name),
  );
  if (wrong === undefined) return;
  throw new UsageError(
    scene === undefined
      ? `--${wrong} needs a scene: npm run sim -- SCENE --${wrong}. The scenes are ${SCENE_NAMES.join(", ")}.`
      : `--${wrong} is for seeds. A scene has no seed and always runs on the memory store.`,
  );
}

async function simulateMany(options: Options, store: string, output: Output): Promise<number> {
  const { from, to } = parseRange(options.text("seeds") ?? DEFAULT_SEEDS);
  const { clock } = systemParts();
  const startedAt = clock.now();
  let shownAt = startedAt;
  const onPart = (summary: Summary): void => {
    const now = clock.now();
    if (now - shownAt < PROGRESS_EVERY_MS) return;
    shownAt = now;
    output.progress(formatProgress(to - from + 1, summary, now - startedAt));
  };
  const jobs = options.count("jobs") ?? availableParallelism();
  const [failFast, twice] = [options.has("fail-fast"), options.has("twice")];
  const summary = await runInThreads({ from, to, store, failFast, twice, jobs, onPart });
  output.progress("");
  const seconds = (clock.now() - startedAt) / 1_000;
  const isGreen = summary.findings.length === 0;
  output.answer(
    () => formatSummary(summary, store, seconds),
    () => ({ store, seconds, isGreen, ...summary, kinds: Object.fromEntries(summary.kinds) }),
  );
  if (!output.json && !options.has("no-shrink"))
    await explain(summary.findings, store, simHost, output);
  return isGreen ? EXIT.ok : EXIT.no;
}

function answerOne({ plan, result, verdict }: Outcome, options: Options, output: Output): number {
  const { violations, invalid } = verdict;
  const hash = result.trace.hash();
  output.answer(
    () => [
      ...timeline(result.trace.events, violations, { all: options.has("all") }),
      "",
      `Seed ${plan.seed}, store ${plan.store}, ttl ${plan.ttlMs} ms, ${plan.programs} programs, trace ${hash}.`,
      `Faults: ${formatKinds(result.trace.faults)}.`,
      plan.isBeyondBounds
        ? "This run breaks the bounds on purpose: S3 is not checked, the guards are."
        : "All faults are within the bounds.",
      ...violations.map(
        ({ invariant, message, at }) => `${formatSeconds(at)} ${invariant}: ${message}`,
      ),
      ...invalid.map((reason) => `Invalid: ${reason}.`),
      violations.length + invalid.length === 0 ? "No violation." : "Failed.",
    ],
    () => ({ plan, hash, violations, invalid }),
  );
  return violations.length + invalid.length === 0 ? EXIT.ok : EXIT.no;
}

function formatSummary(summary: Summary, store: string, took: number): string[] {
  const { seeds, faults, findings } = summary;
  const perMinute = Math.round((seeds / took) * 60);
  const hours = summary.virtualMs / 1_000 / 3_600;
  return [
    `${seeds} seeds on the model of ${store} in ${took.toFixed(1)} s (${perMinute} per minute), ${hours.toFixed(1)} hours of virtual time.`,
    `${summary.events} events, ${summary.grants} grants, ${summary.acts} acts, ${summary.staleWrites} stale writes at guards, ${summary.ownStaleWrites} of them from a holder that was stopped before its write.`,
    `${faults} faults, ${Math.round(faults / seeds)} per seed and at least ${summary.faultsMin}, of ${summary.kinds.size} kinds: ${formatKinds(summary.kinds)}.`,
    ...findings.slice(0, 20).map(formatFinding),
    findings.length === 0 ? "No violation, no invalid seed." : `${findings.length} seeds failed.`,
  ];
}

function formatFinding({ seed, violations, invalid }: Finding): string {
  const [first] = violations;
  return first === undefined
    ? `  seed ${seed} is invalid: ${invalid.join(", ")}`
    : `  seed ${seed}: ${formatSeconds(first.at)} ${first.invariant}: ${first.message}`;
}

function formatKinds(kinds: ReadonlyMap<string, number>): string {
  return [...kinds].map(([kind, count]) => `${kind} ${count}`).join(", ");
}

function formatSeconds(ms: number): string {
  return `${(ms / 1_000).toFixed(3)} s`;
}

function formatProgress(wanted: number, { seeds, findings }: Summary, tookMs: number): string {
  const width = 30;
  const done = Math.round((seeds / wanted) * width);
  const bar = "#".repeat(done) + ".".repeat(width - done);
  const leftS = Math.ceil(((tookMs / seeds) * (wanted - seeds)) / 1_000);
  return `[${bar}] ${seeds} of ${wanted} seeds, ${findings.length} failed, ${leftS} s left`;
}

function parseRange(text: string): { readonly from: number; readonly to: number } {
  const [, from, to] = /^(\d{1,9})\.\.(\d{1,9})$/.exec(text) ?? [];
  const range = { from: Number(from), to: Number(to) };
  if (range.from >= 1 && range.to >= range.from) return range;
  throw new UsageError(`--seeds needs a range such as 1..1000, got ${JSON.stringify(text)}.`);
}

function parseChanges(options: Options): Changes {
  return {
    without: splitList(options, "without").map(parseFaultKind),
    keep: options.text("keep") === undefined ? undefined : splitList(options, "keep").map(Number),
    programs: options.count("programs"),
    calmAt: options.count("calm-at"),
  };
}

function splitList(options: Options, name: string): string[] {
  return (options.text(name) ?? "").split(",").filter((word) => word !== "");
}

function parseFaultKind(word: string): FaultKind {
  const kind = FAULT_KINDS.find((each) => each === word.trim());
  if (kind !== undefined) return kind;
  throw new UsageError(`There is no fault "${word}". The faults are ${FAULT_KINDS.join(", ")}.`);
}
