// Runs a range of seeds one after the other and sums up the results.

import type { Violation } from "./checkers/checker.ts";
import { compareTraces } from "./compare-traces.ts";
import { loadEngine, type Outcome, runSeed } from "./run.ts";
import type { Host } from "./world/world.ts";

export interface SwarmOptions {
  readonly from: number;
  readonly to: number;
  readonly store: string;
  readonly host: Host;
  /** Stop at the first seed that fails. */
  readonly failFast: boolean;
  /** Run every seed twice, and report a finding if the traces differ. */
  readonly twice: boolean;
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
  /** The smallest number of faults in any run. */
  faultsMin: number;
  readonly kinds: Map<string, number>;
  grants: number;
  acts: number;
  staleWrites: number;
  /** Stale writes of a holder that was stopped between its check and its write. */
  ownStaleWrites: number;
  readonly findings: Finding[];
}

export async function runSwarm(options: SwarmOptions): Promise<Summary> {
  // Isolation blocks loading, so load first. Isolating once for all seeds is faster than once per
  // seed.
  await loadEngine(options.store);
  const endIsolation = options.host.isolate();
  try {
    return await runEach(options);
  } finally {
    endIsolation();
  }
}

async function runEach({ from, to, store, host, failFast, twice }: SwarmOptions): Promise<Summary> {
  const summary = emptySummary();
  for (let seed = from; seed <= to; seed += 1) {
    const outcome = await runSeed(seed, store, host).catch((cause: unknown) => {
      // A checker or the host failed, not the run. Name the seed.
      throw new Error(`Seed ${seed} on ${store} could not be checked.`, { cause });
    });
    addOutcome(summary, seed, outcome);
    const again = twice ? await runSeed(seed, store, host) : undefined;
    const differs = again && compareTraces(outcome.result.trace, again.result.trace);
    if (differs !== undefined) summary.findings.push({ seed, violations: [differs], invalid: [] });
    if (failFast && summary.findings.length > 0) break;
  }
  return summary;
}

export function emptySummary(): Summary {
  return {
    seeds: 0,
    virtualMs: 0,
    events: 0,
    faults: 0,
    faultsMin: Number.POSITIVE_INFINITY,
    kinds: new Map(),
    grants: 0,
    acts: 0,
    staleWrites: 0,
    ownStaleWrites: 0,
    findings: [],
  };
}

/** Adds the summary of other seeds to `total`. */
export function addSummary(total: Summary, part: Summary): void {
  total.seeds += part.seeds;
  total.virtualMs += part.virtualMs;
  total.events += part.events;
  total.faults += part.faults;
  total.faultsMin = Math.min(total.faultsMin, part.faultsMin);
  for (const [kind, count] of part.kinds)
    total.kinds.set(kind, (total.kinds.get(kind) ?? 0) + count);
  total.grants += part.grants;
  total.acts += part.acts;
  total.staleWrites += part.staleWrites;
  total.ownStaleWrites += part.ownStaleWrites;
  total.findings.push(...part.findings);
}

function addOutcome(summary: Summary, seed: number, { result, verdict }: Outcome): void {
  const { violations, invalid, grants, acts, staleWrites, ownStaleWrites } = verdict;
  const { steps: events, virtualMs, trace } = result;
  const isGreen = violations.length === 0 && invalid.length === 0;
  addSummary(summary, {
    seeds: 1,
    virtualMs,
    events,
    grants,
    acts,
    staleWrites,
    ownStaleWrites,
    faults: trace.faultCount,
    faultsMin: trace.faultCount,
    kinds: trace.faults,
    findings: isGreen ? [] : [{ seed, violations, invalid }],
  });
}
