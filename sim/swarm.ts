// Many seeds, one after the other, and what came of them together.

import type { Violation } from "./checkers/checker.ts";
import { differenceOf } from "./difference.ts";
import { loadEngine, type Outcome, runSeed } from "./run.ts";
import type { Host } from "./world/world.ts";

export interface SwarmOptions {
  readonly from: number;
  readonly to: number;
  readonly store: string;
  readonly host: Host;
  /** End with the first seed that is not green. */
  readonly failFast: boolean;
  /** Runs every seed a second time: a day that is not the same to the last digit is a finding. */
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
  /** The fewest faults that any of the days had. */
  faultsMin: number;
  readonly kinds: Map<string, number>;
  grants: number;
  acts: number;
  staleWrites: number;
  /** Of these, by a holder that was stopped between its check and its write. */
  ownStaleWrites: number;
  readonly findings: Finding[];
}

export async function runSwarm(options: SwarmOptions): Promise<Summary> {
  // Nothing can be loaded behind closed doors, and closing them costs more than to leave them closed from day to day.
  await loadEngine(options.store);
  const reopen = options.host.closeWorld();
  try {
    return await runEach(options);
  } finally {
    reopen();
  }
}

async function runEach({ from, to, store, host, failFast, twice }: SwarmOptions): Promise<Summary> {
  const summary = emptySummary();
  for (let seed = from; seed <= to; seed += 1) {
    const outcome = await runSeed(seed, store, host).catch((cause: unknown) => {
      // A checker or a model that throws: nothing of the day itself does, but which day it was is worth knowing.
      throw new Error(`Seed ${seed} on ${store} could not be judged.`, { cause });
    });
    add(summary, seed, outcome);
    const again = twice ? await runSeed(seed, store, host) : undefined;
    const differs = again && differenceOf(outcome.ended.trace, again.ended.trace);
    if (differs !== undefined) summary.findings.push({ seed, violations: [differs], invalid: [] });
    if (failFast && summary.findings.length > 0) break;
  }
  return summary;
}

export function emptySummary(): Summary {
  return {
    ...{ seeds: 0, virtualMs: 0, events: 0, faults: 0, faultsMin: Number.POSITIVE_INFINITY },
    ...{ kinds: new Map(), grants: 0, acts: 0, staleWrites: 0, ownStaleWrites: 0, findings: [] },
  };
}

/** Adds what came of other seeds. */
export function sum(total: Summary, part: Summary): void {
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

function add(summary: Summary, seed: number, { ended, verdict }: Outcome): void {
  const { violations, invalid, grants, acts, staleWrites, ownStaleWrites } = verdict;
  const { steps: events, virtualMs, trace } = ended;
  const isGreen = violations.length === 0 && invalid.length === 0;
  sum(summary, {
    ...{ seeds: 1, virtualMs, events, grants, acts, staleWrites, ownStaleWrites },
    ...{ faults: trace.faultCount, faultsMin: trace.faultCount, kinds: trace.faults },
    findings: isGreen ? [] : [{ seed, violations, invalid }],
  });
}
