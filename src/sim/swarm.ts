// Many seeds, one after the other, and what came of them together.

import type { Violation } from "./checkers/checker.ts";
import { type Outcome, runSeed } from "./run.ts";
import type { Host } from "./world.ts";

export interface SwarmOptions {
  readonly from: number;
  readonly to: number;
  readonly store: string;
  readonly host: Host;
  /** End with the first seed that is not green. */
  readonly failFast: boolean;
  /** After each seed; false ends the run. */
  readonly onSeed?: ((seed: number, summary: Summary) => boolean) | undefined;
}

export interface Finding {
  readonly seed: number;
  readonly violations: readonly Violation[];
  readonly invalid: readonly string[];
}

export interface Summary {
  seeds: number;
  virtualMs: number;
  events: number;
  faults: number;
  /** The fewest faults that any of the days had. */
  faultsMin: number;
  readonly kinds: Map<string, number>;
  grants: number;
  acts: number;
  staleWrites: number;
  readonly findings: Finding[];
}

export async function runSwarm(options: SwarmOptions): Promise<Summary> {
  const { from, to, store, host, failFast, onSeed } = options;
  const summary: Summary = {
    ...{ seeds: 0, virtualMs: 0, events: 0, faults: 0, faultsMin: Number.POSITIVE_INFINITY },
    ...{ kinds: new Map(), grants: 0, acts: 0, staleWrites: 0, findings: [] },
  };
  for (let seed = from; seed <= to; seed += 1) {
    add(summary, seed, await runSeed(seed, store, host));
    if (failFast && summary.findings.length > 0) break;
    if (onSeed?.(seed, summary) === false) break;
  }
  return summary;
}

function add(summary: Summary, seed: number, { ended, verdict }: Outcome): void {
  const { violations, invalid, grants, acts, staleWrites } = verdict;
  summary.seeds += 1;
  summary.virtualMs += ended.virtualMs;
  summary.events += ended.steps;
  summary.grants += grants;
  summary.acts += acts;
  summary.staleWrites += staleWrites;
  let faults = 0;
  for (const [kind, count] of ended.trace.faults) {
    faults += count;
    summary.kinds.set(kind, (summary.kinds.get(kind) ?? 0) + count);
  }
  summary.faults += faults;
  summary.faultsMin = Math.min(summary.faultsMin, faults);
  if (violations.length > 0 || invalid.length > 0)
    summary.findings.push({ seed, violations, invalid });
}
