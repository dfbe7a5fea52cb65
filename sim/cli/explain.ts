// Of all that was found, the first in its smallest form: a timeline, and the command that shows it again.

import type { Output } from "../../src/cli/output/output.ts";
import type { Violation } from "../checkers/checker.ts";
import { DETERMINISM } from "../difference.ts";
import { UNCHANGED } from "../faults/plan.ts";
import { runSeed } from "../run.ts";
import { replayCommand, shrink } from "../shrink.ts";
import type { Finding } from "../swarm.ts";
import { excerpt } from "../timeline.ts";
import type { Host } from "../world/world.ts";

/** How much of the day before a violation is told. */
const EXCERPT_MS = 12_000;

export async function explain(
  findings: readonly Finding[],
  store: string,
  host: Host,
  voice: Output,
): Promise<void> {
  // One that is merely invalid may come before it, and has nothing to explain.
  const finding = findings.find(({ violations }) => violations.length > 0);
  if (finding === undefined) return;
  const { seed } = finding;
  const differs = findings
    .flatMap((other) => (other.seed === seed ? other.violations : []))
    .find(({ invariant }) => invariant === DETERMINISM);
  const found = differs === undefined ? await runSeed(seed, store, host) : undefined;
  // A day that is not the same twice has no smaller form: what is left out may only have moved it.
  if (found === undefined || found.verdict.violations.length === 0) {
    explainDifference(seed, store, differs, voice);
    return;
  }
  const { changes, outcome, runs } = await shrink(found, host);
  const { trace } = outcome.ended;
  const lines = excerpt(trace.events, outcome.verdict.violations, EXCERPT_MS);
  voice.answer(
    () => [
      "",
      `Seed ${seed}, shrunk in ${runs} runs to ${outcome.plan.faults.length} planned faults and ${outcome.plan.programs} programs:`,
      ...lines,
      "",
      `Replay: ${replayCommand(seed, store, changes)}`,
    ],
    () => ({ seed, changes }),
  );
}

function explainDifference(
  seed: number,
  store: string,
  differs: Violation | undefined,
  voice: Output,
): void {
  const how = differs?.message ?? "what was found is not found when the same day is run again";
  const command = `${replayCommand(seed, store, UNCHANGED)} --twice`;
  voice.answer(
    () => ["", `Seed ${seed}: ${how}.`, "", `Replay: ${command}`],
    () => ({ seed, how }),
  );
}
