// One comparison: some figures, measured for Tenure, for the raw floor and for the peers in turn, several times over. What
// counts is the median, and of ratios the median of those within one round.

import { median, type Row, type Section, spread } from "../support.ts";

export interface Unit {
  show(value: number): string;
  /** Whether more is better. */
  readonly isRate: boolean;
}

export const perSecond: Unit = { show: (value) => `${Math.round(value)} /s`, isRate: true };
export const milliseconds: Unit = { show: (value) => `${value.toFixed(2)} ms`, isRate: false };

export interface Contestant {
  readonly name: string;
  readonly kind: "ours" | "floor" | "peer";
  /** Called once before anything is measured, for what only the first times cost. */
  warmUp?(): Promise<unknown>;
  /** By the name of the figure. */
  measure(): Promise<Readonly<Record<string, number>>>;
}

export interface Comparison {
  readonly title: string;
  readonly method: string;
  readonly figures: Readonly<Record<string, Unit>>;
  readonly contestants: readonly Contestant[];
  /** Measured all at the same time, because they only wait. @default false */
  readonly together?: boolean | undefined;
  /** Takes long: in a quick run it is measured in the first round only. @default false */
  readonly isLong?: boolean | undefined;
  /** Why a peer may be ahead: it does less. */
  readonly reasons?: Readonly<Record<string, string>> | undefined;
}

type Values = Map<Contestant, Record<string, number>[]>;

interface Run {
  readonly rounds: number;
  readonly quick: boolean;
  say(line: string): void;
}

/** Every comparison in every round, so that whatever else the machine does hits them all. */
export async function compare(
  comparisons: readonly Comparison[],
  { rounds, quick, say }: Run,
): Promise<Section[]> {
  say("warming up");
  for (const { contestants } of comparisons)
    for (const contestant of contestants) await contestant.warmUp?.();
  const measured = new Map<Comparison, Values>(comparisons.map((each) => [each, new Map()]));
  for (let round = 1; round <= rounds; round += 1) {
    for (const [index, comparison] of comparisons.entries()) {
      if (round > 1 && quick && comparison.isLong === true) continue;
      say(`round ${round}/${rounds}, ${index + 1}/${comparisons.length}: ${comparison.title}`);
      await measureOnce(comparison, measured.get(comparison) ?? new Map());
    }
  }
  return comparisons.map((comparison) => sectionOf(comparison, measured.get(comparison)));
}

async function measureOnce(comparison: Comparison, values: Values): Promise<void> {
  const one = async (contestant: Contestant): Promise<void> => {
    const found = { ...(await contestant.measure()) };
    values.set(contestant, [...(values.get(contestant) ?? []), found]);
  };
  if (comparison.together === true) await Promise.all(comparison.contestants.map(one));
  else for (const contestant of comparison.contestants) await one(contestant);
}

function sectionOf(comparison: Comparison, values: Values = new Map()): Section {
  const { title, method, figures, contestants } = comparison;
  const rows = Object.entries(figures).flatMap(([figure, unit]) => {
    const of = (contestant: Contestant): number[] =>
      (values.get(contestant) ?? []).map((each) => each[figure] ?? Number.NaN);
    const shown = contestants.map((contestant): Row => {
      const all = of(contestant);
      return {
        what: `${figure}: ${contestant.name} (${spread(all, unit.isRate ? 0 : 2)})`,
        measured: unit.show(median(all)),
      };
    });
    return [...shown, ...ratios(comparison, figure, of)];
  });
  return { title, method, rows };
}

const FLOOR_SHARE = 0.85;

/** How many times as good as each of the others. */
function ratios(
  { contestants, figures, reasons = {} }: Comparison,
  figure: string,
  of: (contestant: Contestant) => number[],
): Row[] {
  const ours = contestants.find(({ kind }) => kind === "ours");
  if (ours === undefined) return [];
  return contestants
    .filter((each) => each !== ours)
    .map((other) => {
      const theirs = of(other);
      const each = of(ours).map((value, round) => {
        const theirValue = theirs[round] ?? Number.NaN;
        return figures[figure]?.isRate === true ? value / theirValue : theirValue / value;
      });
      const ratio = median(each);
      const reason = reasons[other.name];
      const row = {
        what: `${figure}: times as good as ${other.name} (${spread(each)})`,
        measured: `${ratio.toFixed(2)}x`,
      };
      if (reason !== undefined) return { ...row, target: reason };
      const least = other.kind === "floor" ? FLOOR_SHARE : 1;
      return { ...row, target: `>= ${least.toFixed(2)}x`, ok: ratio >= least };
    });
}
