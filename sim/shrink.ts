// Shrinks a failing run to a smaller one that breaks the same invariant: leaves out kinds of
// faults, then single faults, then programs, and then ends the faults earlier. The result is a
// short replay command and a readable timeline.

import { type Changes, createPlan, type FaultKind, NO_CHANGES } from "./faults/plan.ts";
import { type Outcome, runSeed } from "./run.ts";
import type { Host } from "./world/world.ts";

export interface Shrunk {
  readonly changes: Changes;
  readonly outcome: Outcome;
  /** How many runs the search took. */
  readonly runs: number;
}

const RUNS_MAX = 300;

export async function shrink(found: Outcome, host: Host): Promise<Shrunk> {
  const search = new Search(found, host);
  await search.leaveOutKinds();
  await search.leaveOutFaults();
  await search.leaveOutPrograms();
  await search.endFaultsEarlier();
  return search.best;
}

class Search {
  readonly #host: Host;
  readonly #invariant: string;
  readonly #seed: number;
  readonly #store: string;
  best: Shrunk;

  constructor(found: Outcome, host: Host) {
    this.#host = host;
    const [first] = found.verdict.violations;
    // Without an invariant to keep broken, every run would match and all faults would be left out.
    if (first === undefined) throw new Error("A run without a violation cannot be shrunk.");
    this.#invariant = first.invariant;
    this.#seed = found.plan.seed;
    this.#store = found.plan.store;
    // Keep the start of the calm phase: with fewer faults, it would begin later.
    const changes = { ...NO_CHANGES, calmAt: found.plan.faultyMs };
    this.best = { changes, outcome: found, runs: 0 };
  }

  /** Ends the faults earlier by a half, then by a quarter, and so on. */
  async endFaultsEarlier(): Promise<void> {
    for (let part = 0.5; part > 0.05; part /= 2) {
      const { calmAt = 0 } = this.best.changes;
      const isEarlier = await this.#try({
        ...this.best.changes,
        calmAt: Math.round(calmAt * (1 - part)),
      });
      if (isEarlier) part *= 2;
    }
  }

  async leaveOutKinds(): Promise<void> {
    for (const kind of [...this.best.outcome.plan.kinds]) {
      const without: FaultKind[] = [...this.best.changes.without, kind];
      await this.#try({ ...this.best.changes, without });
    }
  }

  /** Leaves out half of the faults, then quarters, and so on down to single faults. */
  async leaveOutFaults(): Promise<void> {
    const all = createPlan(this.#seed, this.#store).faults;
    const { without } = this.best.changes;
    let kept = all.flatMap(({ kind }, index) => (without.includes(kind) ? [] : [index]));
    for (let size = Math.ceil(kept.length / 2); size >= 1; size = Math.floor(size / 2)) {
      for (let start = 0; start < kept.length; ) {
        const keep = [...kept.slice(0, start), ...kept.slice(start + size)];
        if (await this.#try({ ...this.best.changes, keep })) kept = keep;
        else start += size;
      }
    }
  }

  async leaveOutPrograms(): Promise<void> {
    for (let programs = this.best.outcome.plan.programs - 1; programs >= 2; programs -= 1)
      if (!(await this.#try({ ...this.best.changes, programs }))) return;
  }

  async #try(changes: Changes): Promise<boolean> {
    const runs = this.best.runs + 1;
    if (runs > RUNS_MAX) return false;
    const outcome = await runSeed(this.#seed, this.#store, this.#host, changes);
    const isSame = outcome.verdict.violations[0]?.invariant === this.#invariant;
    this.best = isSame ? { changes, outcome, runs } : { ...this.best, runs };
    return isSame;
  }
}

/** The command that replays a shrunk run. */
export function formatReplayCommand(seed: number, store: string, changes: Changes): string {
  const words = [`npm run sim -- --seed ${seed} --store ${store}`];
  if (changes.without.length > 0) words.push(`--without "${changes.without.join(",")}"`);
  if (changes.keep !== undefined) words.push(`--keep "${changes.keep.join(",")}"`);
  if (changes.programs !== undefined) words.push(`--programs ${changes.programs}`);
  if (changes.calmAt !== undefined) words.push(`--calm-at ${changes.calmAt}`);
  return words.join(" ");
}
