// Evaluates the demo from the rows of the ledger and the reports of the workers, and formats the
// result as a table.

import type { Paint, Style } from "../../src/cli/output/output.ts";
import { parseToken } from "../../src/core/token.ts";
import { findStaleRows, type LedgerRow } from "./ledger.ts";
import { type Seen, TIMING } from "./messages.ts";
import { milliseconds } from "./narrator.ts";
import type { Measured } from "./story.ts";

export interface Evidence {
  readonly seen: readonly Seen[];
  readonly rows: readonly LedgerRow[];
  readonly measured: Measured;
}

export interface Verdict {
  readonly grants: number;
  readonly gapsMs: readonly number[];
  readonly takeoversMs: readonly number[];
  readonly staleAttempted: number;
  readonly staleAccepted: number;
  readonly entries: number;
  readonly tokensIncrease: boolean;
  readonly passed: boolean;
}

export function judge({ seen, rows, measured }: Evidence): Verdict {
  const grants = seen.flatMap(({ report }) =>
    report.type === "granted" ? [parseToken(report.token)] : [],
  );
  const rejected = seen.filter(({ report }) => report.type === "rejected").length;
  // Counted in the ledger rather than taken from reports, so that a stale write counts even if its
  // writer did not notice it.
  const staleAccepted = findStaleRows(rows).length;
  const staleAttempted = rejected + staleAccepted;
  const tokensIncrease = grants.every((token, at) => at === 0 || token > (grants[at - 1] ?? token));
  return {
    ...measured,
    grants: grants.length,
    staleAttempted,
    staleAccepted,
    entries: rows.length,
    tokensIncrease,
    passed: staleAccepted === 0 && staleAttempted > 0 && tokensIncrease,
  };
}

export function formatTable(verdict: Verdict, paint: Paint): string {
  const { gapsMs, takeoversMs, staleAttempted, staleAccepted, tokensIncrease } = verdict;
  const good = (ok: boolean): Style => (ok ? "green" : "red");
  const ttl = `ttl ${milliseconds(TIMING.ttlMs)}`;
  const rows: [name: string, value: string, note: string, style: Style][] = [
    ["grants", String(verdict.grants), "", "bold"],
    ["handover gap, planned", formatMedian(gapsMs), formatRange(gapsMs, "shutdowns"), "bold"],
    [
      "takeover after a pause",
      formatMedian(takeoversMs),
      `${formatRange(takeoversMs, "pauses")}; ${ttl}`,
      "bold",
    ],
    ["ledger entries", String(verdict.entries), "", "bold"],
    ["stale writes attempted", String(staleAttempted), "must not be 0", good(staleAttempted > 0)],
    ["stale writes accepted", String(staleAccepted), "must be 0", good(staleAccepted === 0)],
    [
      "tokens strictly increasing",
      tokensIncrease ? "yes" : "no",
      "must be yes",
      good(tokensIncrease),
    ],
  ];
  const line = ([name, value, note, style]: (typeof rows)[number]): string =>
    `  ${name.padEnd(28)}${paint(style, value.padStart(9))}   ${paint("dim", note)}`.trimEnd();
  return rows.map(line).join("\n");
}

function formatMedian(values: readonly number[]): string {
  const sorted = [...values].sort((left, right) => left - right);
  const value = sorted[Math.floor(sorted.length / 2)];
  return value === undefined ? "none" : milliseconds(value);
}

function formatRange(values: readonly number[], what: string): string {
  if (values.length === 0) return "";
  const [least, most] = [Math.min(...values), Math.max(...values)];
  return `median of ${values.length} ${what}: ${milliseconds(least)} to ${milliseconds(most)}`;
}
