// From trials to the published figures, and their two forms: a table for people, one line of JSON per contestant.
import { quantile } from "../support.ts";
import type { TrialResult } from "./trial.ts";

export interface Figures {
  readonly name: string;
  readonly trials: number;
  /** Trials in which the first holder acted at or behind the grant to the second. */
  readonly overlaps: number;
  /** The worst of them. Zero or below: there was none, and so much time lay in between. Null without a trial. */
  readonly overlapMsMax: number | null;
  /** Of fewer than a hundred trials the worst. Null: in at least one of a hundred the first was not told within the window. */
  readonly holderToldMsP99: number | null;
}

export interface Row {
  readonly version: string;
  readonly figures: Figures;
  readonly neverTold: number;
}

export function figuresOf(name: string, results: readonly TrialResult[]): Figures {
  const overlaps = results.map(({ overlapMs }) => overlapMs);
  const told = results.flatMap(({ toldMs }) => (toldMs === undefined ? [] : [toldMs]));
  const isOftenNever = (results.length - told.length) * 100 >= results.length;
  return {
    name,
    trials: results.length,
    overlaps: overlaps.filter((overlapMs) => overlapMs >= 0).length,
    overlapMsMax: rounded(Math.max(...overlaps)),
    holderToldMsP99: isOftenNever ? null : rounded(quantile(told, 0.99)),
  };
}

function rounded(ms: number): number | null {
  return Number.isFinite(ms) ? Math.round(ms * 10) / 10 : null;
}

export function table(rows: readonly Row[]): string {
  const told = rows.every(({ figures }) => figures.trials >= 100) ? "p99" : "worst";
  const head = ["", "trials", "overlaps", "longest overlap", `first is told after (${told})`];
  const lines = rows.map(({ version, figures, neverTold }) => [
    version,
    String(figures.trials),
    String(figures.overlaps),
    shownOverlap(figures, neverTold),
    shownTold(figures, neverTold),
  ]);
  const widths = head.map((_, column) =>
    Math.max(...[head, ...lines].map((line) => line[column]?.length ?? 0)),
  );
  const show = (line: readonly string[]): string =>
    `| ${line.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(" | ")} |`;
  const rule = `|${widths.map((width) => "-".repeat(width + 2)).join("|")}|`;
  return [show(head), rule, ...lines.map(show)].join("\n");
}

function shownOverlap({ overlaps, overlapMsMax }: Figures, neverTold: number): string {
  if (overlapMsMax === null) return "not measured";
  if (overlaps === 0) return `none; at least ${-overlapMsMax} ms apart`;
  // Who was never told still acted when the trial was ended.
  return `${neverTold > 0 ? "over " : ""}${overlapMsMax} ms`;
}

function shownTold({ holderToldMsP99, trials }: Figures, neverTold: number): string {
  const never = neverTold === 0 ? "" : `never in ${neverTold} of ${trials}`;
  return holderToldMsP99 === null
    ? never
    : [`${holderToldMsP99} ms`, never].filter(Boolean).join("; ");
}
