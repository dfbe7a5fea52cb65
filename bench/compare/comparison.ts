// One comparison: some figures, measured for Tenure, for the raw floor and for the peers in turn, several times over. What
// counts is the median, and of ratios the median of those within one round. A contestant that fails is a row that says so.

import { median, type Row, type Section, type Series, spread } from "../support.ts";
import { endWorkers } from "../workers.ts";

export interface Unit {
  readonly name: Series["unit"];
  readonly digits: number;
  /** Whether more is better. */
  readonly isRate: boolean;
}

export const perSecond: Unit = { name: "/s", digits: 0, isRate: true };
export const milliseconds: Unit = { name: "ms", digits: 2, isRate: false };
export const nanoseconds: Unit = { name: "ns", digits: 0, isRate: false };
export const requests: Unit = { name: "requests", digits: 1, isRate: false };

export interface Measured {
  /** By the name of the figure. */
  readonly figures: Readonly<Record<string, number>>;
  /** Every single value behind them, for a picture of how they are spread. */
  readonly each?: readonly number[];
}

export interface Contestant {
  readonly name: string;
  readonly kind: "ours" | "floor" | "peer";
  /** Called once before anything is measured, for what only the first times cost. */
  warmUp?(): Promise<unknown>;
  measure(): Promise<Measured>;
}

export interface Comparison {
  readonly title: string;
  readonly method: string;
  readonly figures: Readonly<Record<string, Unit>>;
  readonly contestants: readonly Contestant[];
  /** Measured all at the same time, because they only wait. @default false */
  readonly together?: boolean | undefined;
  /** Measured so often a round, the contestants in turn: for what is short and drifts with the machine. @default 1 */
  readonly slices?: number | undefined;
  /** Takes long: in a quick run it is measured in the first round only. @default false */
  readonly isLong?: boolean | undefined;
  /** Why a peer may be ahead: it does less. */
  readonly reasons?: Readonly<Record<string, string>> | undefined;
  /** What ours may be at most, by figure. */
  readonly limits?: Readonly<Record<string, number>> | undefined;
  /** What has to be reached of the floor, as a share; null: it is for information. @default 0.85 */
  readonly floorShare?: number | null | undefined;
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
      const { isLong, title, slices = 1 } = record.comparison;
      if (round > 1 && quick && isLong === true) continue;
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
    if (this.comparison.together === true) await Promise.all(this.comparison.contestants.map(one));
    else for (const contestant of this.comparison.contestants) await one(contestant);
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
    const { title, method, figures } = this.comparison;
    const rows = Object.entries(figures).flatMap(([figure, unit]) => this.#rows(figure, unit));
    const failures = [...this.#failures].map(([{ name, kind }, message]): Row => {
      const row = { what: name, measured: `failed: ${message}` };
      return kind === "ours" ? { ...row, ok: false } : row;
    });
    return { title, method, rows: [...rows, ...failures], series: this.#series() };
  }

  #of(contestant: Contestant, figure: string): number[] {
    return (this.#values.get(contestant) ?? []).map((each) => each.figures[figure] ?? Number.NaN);
  }

  /** Those that were measured. */
  #present(): Contestant[] {
    return this.comparison.contestants.filter((each) => this.#values.has(each));
  }

  #rows(figure: string, unit: Unit): Row[] {
    const shown = this.#present().map((contestant): Row => {
      const all = this.#of(contestant, figure);
      const row = {
        what: `${figure}: ${contestant.name} (${spread(all, unit.digits)})`,
        measured: `${median(all).toFixed(unit.digits)} ${unit.name}`,
      };
      const limit = contestant.kind === "ours" ? this.comparison.limits?.[figure] : undefined;
      if (limit === undefined) return row;
      return { ...row, target: `<= ${limit} ${unit.name}`, ok: median(all) <= limit };
    });
    return [...shown, ...this.#ratios(figure, unit)];
  }

  /** How many times as good as each of the others. */
  #ratios(figure: string, unit: Unit): Row[] {
    const { reasons = {}, floorShare = 0.85 } = this.comparison;
    const present = this.#present();
    const ours = present.find(({ kind }) => kind === "ours");
    if (ours === undefined) return [];
    return present
      .filter((each) => each !== ours)
      .map((other) => {
        const theirs = this.#of(other, figure);
        const each = this.#of(ours, figure).map((value, round) =>
          timesAsGood(value, theirs[round] ?? Number.NaN, unit),
        );
        const ratio = median(each);
        const row = {
          what: `${figure}: times as good as ${other.name} (${spread(each)})`,
          measured: Number.isFinite(ratio) ? `${ratio.toFixed(2)}x` : "ours needs none",
        };
        const reason = reasons[other.name];
        if (reason !== undefined && ratio < 1) return { ...row, target: reason };
        const least = other.kind === "floor" ? floorShare : 1;
        if (least === null) return row;
        return { ...row, target: `>= ${least.toFixed(2)}x`, ok: ratio >= least };
      });
  }

  #series(): Series[] {
    return this.#present().flatMap((contestant): Series[] => {
      const { name, kind } = contestant;
      const each = (this.#values.get(contestant) ?? []).flatMap((found) => found.each ?? []);
      const figures = Object.entries(this.comparison.figures);
      const [first] = figures;
      const series = figures.map(([figure, unit]) => ({
        ...{ figure, unit: unit.name, name, kind },
        values: this.#of(contestant, figure).map(rounded),
      }));
      if (each.length === 0 || first === undefined) return series;
      return [
        ...series,
        { figure: "each", unit: first[1].name, name, kind, values: each.map(rounded) },
      ];
    });
  }
}

/** More digits say nothing, and results.json is read by people. */
function rounded(value: number): number {
  return Number(value.toPrecision(4));
}

/** Above 1: ours is better. Nothing beside nothing is as good. */
function timesAsGood(ours: number, theirs: number, { isRate }: Unit): number {
  if (ours === theirs) return 1;
  return isRate ? ours / theirs : theirs / ours;
}
