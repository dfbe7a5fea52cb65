// Turns trials into figures, as a table for people and as one line of JSON per contestant.
import { quantile } from "../statistics.ts";
import type { TrialResult } from "./trial.ts";

/** The JSON of one contestant. */
export interface Figures {
  readonly name: string;
  readonly trials: number;
  /** Trials in which the first holder acted at or after the grant to the second. */
  readonly overlaps: number;
  /**
   * The longest overlap. If negative, there was none, and in every trial at least this much time
   * lay between the last act and the next grant. Null: no trial.
   */
  readonly overlapMsMax: number | null;
  /**
   * How long it took until the first holder learned of its loss. Null: in at least 1 % of the
   * trials it was not notified within the window.
   */
  readonly holderToldMsP99: number | null;
}

export interface Row {
  readonly version: string;
  readonly figures: Figures;
  /** Trials in which the first holder was not notified within the window. */
  readonly neverTold: number;
}

export function toRow(name: string, version: string, results: readonly TrialResult[]): Row {
  const overlaps = results.map(({ overlapMs }) => overlapMs);
  const told = results.flatMap(({ toldMs }) => toldMs ?? []);
  const neverTold = results.length - told.length;
  return {
    version,
    neverTold,
    figures: {
      name,
      trials: results.length,
      overlaps: overlaps.filter((overlapMs) => overlapMs >= 0).length,
      overlapMsMax: roundMs(Math.max(...overlaps)),
      holderToldMsP99: neverTold * 100 >= results.length ? null : roundMs(quantile(told, 0.99)),
    },
  };
}

function roundMs(ms: number): number | null {
  return Number.isFinite(ms) ? Math.round(ms * 10) / 10 : null;
}

export function formatTable(rows: readonly Row[]): string {
  const told = rows.every(({ figures }) => figures.trials >= 100) ? "p99" : "worst";
  const head = ["", "trials", "overlaps", "longest overlap", `first is notified after (${told})`];
  const lines = rows.map(({ version, figures, neverTold }) => [
    version,
    String(figures.trials),
    String(figures.overlaps),
    formatOverlap(figures, neverTold),
    formatTold(figures, neverTold),
  ]);
  const widths = head.map((_, column) =>
    Math.max(...[head, ...lines].map((line) => line[column]?.length ?? 0)),
  );
  const show = (line: readonly string[]): string =>
    `| ${line.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(" | ")} |`;
  const rule = `|${widths.map((width) => "-".repeat(width + 2)).join("|")}|`;
  return [show(head), rule, ...lines.map(show)].join("\n");
}

function formatOverlap({ overlaps, overlapMsMax }: Figures, neverTold: number): string {
  if (overlapMsMax === null) return "not measured";
  if (overlaps === 0) return `none; at least ${-overlapMsMax} ms apart`;
  // A holder that was never notified was still acting at the end of the trial.
  return `${neverTold > 0 ? "over " : ""}${overlapMsMax} ms`;
}

function formatTold({ holderToldMsP99, trials }: Figures, neverTold: number): string {
  const parts = [
    holderToldMsP99 === null ? "" : `${holderToldMsP99} ms`,
    neverTold === 0 ? "" : `never in ${neverTold} of ${trials}`,
  ];
  return parts.filter(Boolean).join("; ");
}
