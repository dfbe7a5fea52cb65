// From a day that went wrong to the smallest one that still does: kinds of faults are left out, then single faults, then
// programs, then the faults end earlier, as long as the same invariant is broken. What remains is a short command and a
// timeline that one can read.

import { type Changes, type FaultKind, planOf, UNCHANGED } from "./faults/plan.ts";
import { type Outcome, runSeed } from "./run.ts";
import type { Host } from "./world/world.ts";

export interface Shrunk {
  readonly changes: Changes;
  readonly outcome: Outcome;
  /** Days that were run to find it. */
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
    // Every green day would be "the same": it would be shrunk to nothing at all.
    if (first === undefined) throw new Error("A day without a violation cannot be shrunk.");
    this.#invariant = first.invariant;
    this.#seed = found.plan.seed;
    this.#store = found.plan.store;
    // The calm stays where it was, though fewer faults would have put it off.
    const changes = { ...UNCHANGED, calmAt: found.plan.faultyMs };
    this.best = { changes, outcome: found, runs: 0 };
  }

  /** By halves; then by a quarter, an eighth, as far as it goes. */
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

  /** In halves, then in quarters, and so on down to single ones. */
  async leaveOutFaults(): Promise<void> {
    const all = planOf(this.#seed, this.#store).faults;
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

/** The command that shows it again. */
export function replayCommand(seed: number, store: string, changes: Changes): string {
  const words = [`npm run sim -- --seed ${seed} --store ${store}`];
  if (changes.without.length > 0) words.push(`--without "${changes.without.join(",")}"`);
  if (changes.keep !== undefined) words.push(`--keep "${changes.keep.join(",")}"`);
  if (changes.programs !== undefined) words.push(`--programs ${changes.programs}`);
  if (changes.calmAt !== undefined) words.push(`--calm-at ${changes.calmAt}`);
  return words.join(" ");
}
