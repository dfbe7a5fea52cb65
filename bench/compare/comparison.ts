// One comparison: some figures, measured for Tenure, for the raw floor and for the peers in turn, several times over, each time
// in another order. rows.ts has what is told of them. A contestant that fails is a row that says so.

import { type Row, rotated, type Section, type Series } from "../support.ts";
import { endWorkers } from "../workers.ts";
import { type Demands, type Found, rowsOfRounds, rowsOfTimes, type Unit } from "./rows.ts";

export const perSecond: Unit = { name: "/s", digits: 0, isRate: true };
export const milliseconds: Unit = { name: "ms", digits: 2, isRate: false };
export const nanoseconds: Unit = { name: "ns", digits: 0, isRate: false };
export const requests: Unit = { name: "requests", digits: 1, isRate: false };

export interface Measured {
  /** By the name of the figure. */
  readonly figures?: Readonly<Record<string, number>>;
  /** Single times, where those are compared. */
  readonly each?: readonly number[];
}

export interface Contestant {
  readonly name: string;
  readonly kind: "ours" | "floor" | "peer";
  /** Called once before anything is measured, for what only the first times cost. */
  warmUp?(): Promise<unknown>;
  measure(): Promise<Measured>;
}

export interface Comparison extends Demands {
  readonly title: string;
  readonly method: string;
  readonly figures?: Readonly<Record<string, Unit>>;
  /** Instead of figures: single times, of which those of all rounds are told together. */
  readonly each?: Unit;
  readonly contestants: readonly Contestant[];
  /** Measured all at the same time, because they only wait. @default false */
  readonly together?: boolean | undefined;
  /** Measured so often a round, the contestants in turn: for what is short and drifts with the machine. @default 1 */
  readonly slices?: number | undefined;
  /** Takes long: in a quick run it is measured in the first round only. @default false */
  readonly isLong?: boolean | undefined;
  /** Has all its trials in the first round. @default false */
  readonly isOnce?: boolean | undefined;
}

interface Run {
  readonly rounds: number;
  readonly quick: boolean;
  say(line: string): void;
}

/** Longer than anything that works; shorter than the patience of whoever waits for the table. */
const MEASUREMENT_MAX_MS = 120_000;

/** Every comparison in every round, so that whatever else the machine does hits them all. */
export async function compare(
  comparisons: readonly Comparison[],
  { rounds, quick, say }: Run,
): Promise<Section[]> {
  const records = comparisons.map((comparison) => new Findings(comparison));
  say("warming up");
  for (const record of records) await record.warmUp();
  for (let round = 1; round <= rounds; round += 1) {
    for (const [index, record] of records.entries()) {
      const { isLong, isOnce, title, slices = 1 } = record.comparison;
      if (round > 1 && (isOnce === true || (quick && isLong === true))) continue;
      say(`round ${round}/${rounds}, ${index + 1}/${records.length}: ${title}`);
      for (let slice = 0; slice < slices; slice += 1) await record.measureOnce();
    }
  }
  return records.map((record) => record.section());
}

/** What was found in one comparison so far. */
class Findings {
  readonly comparison: Comparison;
  readonly #values = new Map<Contestant, Measured[]>();
  readonly #failures = new Map<Contestant, string>();
  #turns = 0;

  constructor(comparison: Comparison) {
    this.comparison = comparison;
  }

  async warmUp(): Promise<void> {
    for (const contestant of this.comparison.contestants)
      await this.#attempt(contestant, async () => void (await contestant.warmUp?.()));
  }

  async measureOnce(): Promise<void> {
    const one = (contestant: Contestant): Promise<void> =>
      this.#attempt(contestant, async () => {
        const found = await contestant.measure();
        this.#values.set(contestant, [...(this.#values.get(contestant) ?? []), found]);
      });
    const { contestants, together } = this.comparison;
    if (together === true) await Promise.all(contestants.map(one));
    else for (const contestant of rotated(contestants, this.#turns)) await one(contestant);
    this.#turns += 1;
  }

  /** Whoever failed once is not asked again. */
  async #attempt(contestant: Contestant, act: () => Promise<void>): Promise<void> {
    if (this.#failures.has(contestant)) return;
    let timer: NodeJS.Timeout | undefined;
    const limit = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        endWorkers();
        reject(new Error(`no result within ${MEASUREMENT_MAX_MS / 1_000} s`));
      }, MEASUREMENT_MAX_MS);
    });
    try {
      await Promise.race([act(), limit]);
    } catch (error) {
      this.#failures.set(contestant, (error as Error).message.split("\n")[0] ?? "");
    } finally {
      clearTimeout(timer);
    }
  }

  section(): Section {
    const { title, method, figures = {}, each } = this.comparison;
    const ofRounds = Object.entries(figures).flatMap(([figure, unit]) =>
      rowsOfRounds(figure, unit, this.#found(figure), this.comparison),
    );
    const ofTimes =
      each === undefined ? [] : rowsOfTimes(each, this.#found("each"), this.comparison);
    const failures = [...this.#failures].map(([{ name, kind }, message]): Row => {
      const row = { what: name, measured: `failed: ${message}` };
      return kind === "ours" ? { ...row, ok: false } : row;
    });
    return { title, method, rows: [...ofRounds, ...ofTimes, ...failures], series: this.#series() };
  }

  /** The values of those that were measured; "each": their single times. */
  #found(figure: string): Found[] {
    return this.comparison.contestants.flatMap((contestant): Found[] => {
      const { name, kind } = contestant;
      const all = this.#values.get(contestant);
      if (all === undefined) return [];
      const values = all.flatMap(({ figures = {}, each = [] }) =>
        figure === "each" ? each : [figures[figure] ?? Number.NaN],
      );
      return [{ name, kind, values }];
    });
  }

  #series(): Series[] {
    const { figures = {}, each } = this.comparison;
    const all = [
      ...Object.entries(figures),
      ...(each === undefined ? [] : [["each", each] as const]),
    ];
    return all.flatMap(([figure, unit]) =>
      this.#found(figure).map(({ values, ...who }) => ({
        ...{ figure, unit: unit.name, ...who, values: values.map(rounded) },
      })),
    );
  }
}

/** More digits say nothing, and results.json is read by people. */
function rounded(value: number): number {
  return Number(value.toPrecision(4));
}
