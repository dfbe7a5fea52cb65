// Measures several contestants in turn, over several rounds and in a different order each time, and
// turns their values into the rows of a table: each contestant's value, then how many times as good
// as each other contestant Tenure is. A contestant that fails becomes a row with its message.

import { failedRow, type Row, type Section, type Series } from "./results.ts";
import { formatRange, median, rotate, worstCase } from "./statistics.ts";
import { endWorkers } from "./workers.ts";

export interface Figure {
  readonly unit: string;
  readonly digits: number;
  readonly better: "more" | "less";
  /** Tenure's value may not exceed this; of single times, the worst case may not. */
  readonly atMost?: number | undefined;
  /** What an idle process also uses: not part of ratios, and no difference up to it counts. */
  readonly noise?: number | undefined;
  /** Ratios have no target. @default false */
  readonly isInformative?: boolean | undefined;
}

export const perSecond: Figure = { unit: "/s", digits: 0, better: "more" };
export const milliseconds: Figure = { unit: "ms", digits: 2, better: "less" };
export const nanoseconds: Figure = { unit: "ns", digits: 0, better: "less" };
export const requests: Figure = { unit: "requests", digits: 1, better: "less" };

/** By figure: one value, or single times, which are reported as a distribution over all rounds. */
export type Measured = Readonly<Record<string, number | readonly number[]>>;

export interface Contestant {
  readonly name: string;
  readonly kind: Series["kind"];
  /** Tenure has to be at least this many times as good. @default the ratio is for information */
  readonly target?: number | undefined;
  /** Why this peer may be ahead of Tenure; the target then does not apply. */
  readonly reason?: string | undefined;
  /** Called once, before the first round. */
  warmUp?(): Promise<unknown>;
  measure(): Promise<Measured>;
  /** Called once, after the last round. */
  close?(): Promise<unknown>;
}

export interface Comparison {
  readonly title: string;
  readonly method: string;
  readonly rounds: number;
  readonly figures: Readonly<Record<string, Figure>>;
  readonly contestants: readonly Contestant[];
  /** Measure all contestants at the same time, because they only wait. @default false */
  readonly together?: boolean | undefined;
}

/** A measurement that takes longer than this hangs. */
const MEASUREMENT_MAX_MS = 180_000;

export async function compare(comparison: Comparison): Promise<Section> {
  const { title, method, rounds, figures, contestants, together = false } = comparison;
  const entries = contestants.map((contestant) => new Entry(contestant));
  try {
    for (const entry of entries) await entry.attempt(async () => entry.contestant.warmUp?.());
    for (let round = 0; round < rounds; round += 1) {
      if (together) await Promise.all(entries.map((entry) => entry.measure()));
      else for (const entry of rotate(entries, round)) await entry.measure();
    }
  } finally {
    await Promise.all(entries.map((entry) => entry.contestant.close?.()));
  }
  const all = Object.entries(figures).map(([name, figure]) => ({
    name,
    figure,
    series: entries.flatMap((entry) => entry.readSeries(name, figure.unit)),
    isDistribution: entries.some((entry) => entry.isDistribution(name)),
  }));
  const rows = all.flatMap(({ name, figure, series, isDistribution }) =>
    isDistribution
      ? [...distributionRows("p50", figure, series), ...distributionRows("worst", figure, series)]
      : valueRows(name, figure, series),
  );
  const failures = entries.flatMap((entry) => entry.failed());
  const series = all.flatMap((each) => each.series.map(roundValues));
  return { title, method, rows: [...rows, ...failures], series };

  /** One value per round. Ratios are taken within a round, and the row shows their median. */
  function valueRows(name: string, figure: Figure, found: readonly Series[]): Row[] {
    const values = found.map((each) =>
      valueRow(`${name}: ${each.name}`, median(each.values), each, figure),
    );
    const ratios = againstTenure(found, (tenure, other) => {
      const each = tenure.values
        .map((value, round) => toRatio(value, other.values[round] ?? Number.NaN, figure))
        // A contestant that failed in a later round has no value for it.
        .filter((ratio) => !Number.isNaN(ratio));
      const row = ratioRow(`${name}: ratio to ${other.name}`, median(each), other, figure);
      return each.length > 1 ? { ...row, range: formatRange(each) } : row;
    });
    return [...values, ...ratios];
  }

  /** Single times of all rounds together. */
  function distributionRows(end: "p50" | "worst", figure: Figure, found: readonly Series[]): Row[] {
    const reduce = ({ values }: Series): { label: string; value: number } =>
      end === "p50" ? { label: end, value: median(values) } : worstCase(values);
    const values = found.map((each) => {
      const { label, value } = reduce(each);
      if (end === "worst") return valueRow(`${label}: ${each.name}`, value, each, figure);
      return valueRow(`${label}: ${each.name}`, value, each, { ...figure, atMost: undefined });
    });
    const ratios = againstTenure(found, (tenure, other) => {
      const ratio = toRatio(reduce(tenure).value, reduce(other).value, figure);
      return ratioRow(`${reduce(other).label}: ratio to ${other.name}`, ratio, other, figure);
    });
    return [...values, ...ratios];
  }

  function ratioRow(label: string, ratio: number, { name, kind }: Series, figure: Figure): Row {
    const { target, reason } = contestants.find((each) => each.name === name) ?? {};
    const measured = Number.isFinite(ratio) ? `${ratio.toFixed(2)}x` : "Tenure needs none";
    if (kind === "peer" && ratio < 1 && reason !== undefined)
      return { label, measured, note: reason };
    if (target === undefined || figure.isInformative === true) return { label, measured };
    return { label, measured, target: `>= ${target.toFixed(2)}x`, ok: ratio >= target };
  }
}

function valueRow(label: string, value: number, { values, kind }: Series, figure: Figure): Row {
  const { unit, digits, atMost } = figure;
  const measured = `${value.toFixed(digits)} ${unit}`;
  const row = values.length > 1 ? { range: formatRange(values, digits) } : {};
  if (kind !== "tenure" || atMost === undefined) return { label, measured, ...row };
  const limit = `<= ${Number(atMost.toFixed(digits))} ${unit}`;
  return { label, measured, ...row, target: limit, ok: value <= atMost };
}

function againstTenure(
  series: readonly Series[],
  toRow: (tenure: Series, other: Series) => Row,
): Row[] {
  const tenure = series.find(({ kind }) => kind === "tenure");
  if (tenure === undefined) return [];
  return series.filter((each) => each !== tenure).map((other) => toRow(tenure, other));
}

/** Above 1: Tenure is better. */
function toRatio(tenure: number, other: number, { better, noise = 0 }: Figure): number {
  if (Math.abs(tenure - other) <= noise) return 1;
  if (better === "more") return tenure / other;
  return Math.max(0, other - noise) / Math.max(0, tenure - noise);
}

/** Four digits are enough for the file. */
function roundValues(series: Series): Series {
  return { ...series, values: series.values.map((value) => Number(value.toPrecision(4))) };
}

/** What has been measured of one contestant so far. */
class Entry {
  readonly contestant: Contestant;
  readonly #measured: Measured[] = [];
  #failure: unknown;

  constructor(contestant: Contestant) {
    this.contestant = contestant;
  }

  measure(): Promise<void> {
    return this.attempt(async () => void this.#measured.push(await this.contestant.measure()));
  }

  /** After its first failure a contestant is not measured again. */
  async attempt(act: () => Promise<unknown>): Promise<void> {
    if (this.#failure !== undefined) return;
    let timer: NodeJS.Timeout | undefined;
    const limit = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        // Those that other contestants keep continue.
        if (this.contestant.close === undefined) endWorkers();
        else void this.contestant.close();
        reject(new Error(`no result within ${MEASUREMENT_MAX_MS / 1_000} s`));
      }, MEASUREMENT_MAX_MS);
    });
    try {
      await Promise.race([act(), limit]);
    } catch (error) {
      this.#failure = error;
    } finally {
      clearTimeout(timer);
    }
  }

  isDistribution(figure: string): boolean {
    return this.#measured.some((measured) => typeof measured[figure] === "object");
  }

  readSeries(figure: string, unit: string): Series[] {
    const { name, kind } = this.contestant;
    const values = this.#measured.flatMap((measured) => measured[figure] ?? []);
    return values.length === 0 ? [] : [{ figure, unit, name, kind, values }];
  }

  failed(): Row[] {
    const { name, kind } = this.contestant;
    return this.#failure === undefined ? [] : [failedRow(name, this.#failure, kind === "tenure")];
  }
}
