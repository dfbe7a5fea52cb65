// From measured values to the rows of a table: each contestant's figure with its spread, then how many times as good as each of
// the others ours is. Values alone go in, so that published rows can be made again from the values beside them.

import { highEnd, median, type Row, type Series, spread } from "../support.ts";

export interface Unit {
  readonly name: Series["unit"];
  readonly digits: number;
  /** Whether more is better. */
  readonly isRate: boolean;
}

/** What one contestant came to, in one figure. */
export type Found = Pick<Series, "name" | "kind" | "values">;

/** What is asked of ours. */
export interface Demands {
  /** Why a peer may be ahead, by its name: it does less, or asks more. */
  readonly reasons?: Readonly<Record<string, string>> | undefined;
  /** What ours may be at most, by figure; of single times the worst, as "worst". */
  readonly limits?: Readonly<Record<string, number>> | undefined;
  /** What has to be reached of the floor, as a share; null: it is for information. @default FLOOR_SHARE */
  readonly floorShare?: number | null | undefined;
  /** Ratios to peers are for information. @default false */
  readonly isInformative?: boolean | undefined;
}

/** Of two bare round trips (or commits), for an acquire and a release without contention, wherever that is measured. */
export const FLOOR_SHARE = 0.85;

/** One value a round, or a slice: the median, and of ratios the median of those within one round. */
export function rowsOfRounds(
  figure: string,
  unit: Unit,
  found: readonly Found[],
  demands: Demands = {},
): Row[] {
  const shown = found.map(({ name, kind, values }) =>
    limited(
      {
        what: `${figure}: ${name} (${spread(values, unit.digits)})`,
        measured: withUnit(median(values), unit),
      },
      { value: median(values), limit: limitOf(kind, figure, demands), unit },
    ),
  );
  const ratios = againstOurs(found, (ours, other) => {
    const each = ours
      .map((value, round) => timesAsGood(value, other.values[round] ?? Number.NaN, unit))
      // A contestant that failed in a later round has none of it.
      .filter((ratio) => !Number.isNaN(ratio));
    const what = `${figure}: times as good as ${other.name} (${spread(each)})`;
    return ratioRow(what, median(each), other, demands);
  });
  return [...shown, ...ratios];
}

/** Single times of all rounds together: p50 with the range, and p99 or the worst. */
export function rowsOfTimes(unit: Unit, found: readonly Found[], demands: Demands = {}): Row[] {
  const half = (values: readonly number[]) => ({ name: "p50", value: median(values) });
  const shown = (of: typeof half, show: (each: Found) => Row): Row[] => [
    ...found.map(show),
    ...againstOurs(found, (ours, other) => {
      const what = `${of(other.values).name}: times as good as ${other.name}`;
      const ratio = timesAsGood(of(ours).value, of(other.values).value, unit);
      return ratioRow(what, ratio, other, demands);
    }),
  ];
  return [
    ...shown(half, ({ name, values }) => ({
      what: `p50: ${name} (${spread(values, unit.digits)})`,
      measured: withUnit(median(values), unit),
    })),
    ...shown(highEnd, ({ name, kind, values }) => {
      const end = highEnd(values);
      const row = { what: `${end.name}: ${name}`, measured: withUnit(end.value, unit) };
      const limit = limitOf(kind, "worst", demands);
      return limited(row, { value: Math.max(...values), limit, unit });
    }),
  ];
}

function withUnit(value: number, { name, digits }: Unit): string {
  return `${value.toFixed(digits)} ${name}`;
}

function limitOf(kind: Found["kind"], figure: string, { limits }: Demands): number | undefined {
  return kind === "ours" ? limits?.[figure] : undefined;
}

function limited(
  row: Row,
  {
    value,
    limit,
    unit,
  }: { readonly value: number; readonly limit: number | undefined; readonly unit: Unit },
): Row {
  if (limit === undefined) return row;
  return { ...row, target: `<= ${limit} ${unit.name}`, ok: value <= limit };
}

function againstOurs(
  found: readonly Found[],
  row: (ours: readonly number[], other: Found) => Row,
): Row[] {
  const ours = found.find(({ kind }) => kind === "ours");
  if (ours === undefined) return [];
  return found.filter((each) => each !== ours).map((other) => row(ours.values, other));
}

function ratioRow(
  what: string,
  ratio: number,
  { name, kind }: Found,
  { reasons = {}, floorShare = FLOOR_SHARE, isInformative = false }: Demands,
): Row {
  const measured = Number.isFinite(ratio) ? `${ratio.toFixed(2)}x` : "ours needs none";
  const row: Row = { what, measured };
  const isAhead = kind === "peer" && ratio < 1;
  const why = reasons[name];
  if (isAhead && why !== undefined) return { ...row, target: why, ahead: { peer: name, why } };
  const least = kind === "floor" ? floorShare : isInformative ? null : 1;
  const judged =
    least === null ? row : { ...row, target: `>= ${least.toFixed(2)}x`, ok: ratio >= least };
  return isAhead ? { ...judged, ahead: { peer: name } } : judged;
}

/** Above 1: ours is better. Nothing beside nothing is as good. */
function timesAsGood(ours: number, theirs: number, { isRate }: Unit): number {
  if (ours === theirs) return 1;
  return isRate ? ours / theirs : theirs / ours;
}
