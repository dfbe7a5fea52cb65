// Explains the first violation that a range of seeds found: shrinks it and prints a timeline and
// the replay command.

import type { Output } from "../../src/cli/output/output.ts";
import type { Violation } from "../checkers/checker.ts";
import { DETERMINISM } from "../compare-traces.ts";
import { NO_CHANGES } from "../faults/plan.ts";
import { runSeed } from "../run.ts";
import { formatReplayCommand, shrink } from "../shrink.ts";
import type { Finding } from "../swarm.ts";
import { excerpt } from "../timeline.ts";
import type { Host } from "../world/world.ts";

/** How much of the timeline before the violation is printed. */
const EXCERPT_MS = 12_000;

export async function explain(
  findings: readonly Finding[],
  store: string,
  host: Host,
  output: Output,
): Promise<void> {
  // An invalid run has no violation to explain.
  const finding = findings.find(({ violations }) => violations.length > 0);
  if (finding === undefined) return;
  const { seed } = finding;
  const differs = findings
    .flatMap((other) => (other.seed === seed ? other.violations : []))
    .find(({ invariant }) => invariant === DETERMINISM);
  const found = differs === undefined ? await runSeed(seed, store, host) : undefined;
  // A run that is not repeatable cannot be shrunk: any change may move or hide the failure.
  if (found === undefined || found.verdict.violations.length === 0) {
    explainDifference(seed, store, differs, output);
    return;
  }
  const { changes, outcome, runs } = await shrink(found, host);
  const { trace } = outcome.result;
  const lines = excerpt(trace.events, outcome.verdict.violations, EXCERPT_MS);
  output.answer(
    () => [
      "",
      `Seed ${seed}, shrunk in ${runs} runs to ${outcome.plan.faults.length} planned faults and ${outcome.plan.programs} programs:`,
      ...lines,
      "",
      `Replay: ${formatReplayCommand(seed, store, changes)}`,
    ],
    () => ({ seed, changes }),
  );
}

function explainDifference(
  seed: number,
  store: string,
  differs: Violation | undefined,
  output: Output,
): void {
  const how = differs?.message ?? "the violation does not occur when the seed is run again";
  const command = `${formatReplayCommand(seed, store, NO_CHANGES)} --twice`;
  output.answer(
    () => ["", `Seed ${seed}: ${how}.`, "", `Replay: ${command}`],
    () => ({ seed, how }),
  );
}
