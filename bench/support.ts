// Small tools of the benchmarks: temp folders, medians, and the rows that end up in RESULTS.md.

import { mkdtempSync, rmSync } from "node:fs";
import { cpus, release, tmpdir, totalmem } from "node:os";
import { join } from "node:path";

/** One line of the results. `target` is the figure to reach, where there is one; `ok` says whether it was. */
export interface Row {
  readonly what: string;
  readonly measured: string;
  readonly target?: string;
  readonly ok?: boolean;
}

/** What was measured for one contestant, as numbers: the pictures are drawn from these. */
export interface Series {
  /** "pairs", "p99". */
  readonly figure: string;
  readonly unit: "/s" | "ms" | "ns" | "requests" | "kB";
  readonly name: string;
  readonly kind: "ours" | "floor" | "peer";
  /** One per round, or all of a distribution. */
  readonly values: readonly number[];
}

export interface Section {
  readonly title: string;
  readonly method: string;
  readonly rows: readonly Row[];
  readonly series?: readonly Series[];
}

export async function inTempFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), "tenure-bench-"));
  try {
    return await work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

export function median(values: readonly number[]): number {
  return quantile(values, 0.5);
}

export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

export function spread(values: readonly number[], digits = 2): string {
  return `${Math.min(...values).toFixed(digits)}-${Math.max(...values).toFixed(digits)}`;
}

export function atMost(
  what: string,
  value: number,
  limit: number,
  show: (value: number) => string,
): Row {
  return { what, measured: show(value), target: `<= ${show(limit)}`, ok: value <= limit };
}

export function atLeast(
  what: string,
  value: number,
  limit: number,
  show: (value: number) => string,
): Row {
  return { what, measured: show(value), target: `>= ${show(limit)}`, ok: value >= limit };
}

export function machine(): string {
  const cores = cpus();
  const memoryGiB = Math.round(totalmem() / 2 ** 30);
  return `${cores.length} x ${cores[0]?.model ?? "unknown"}, ${memoryGiB} GiB, ${process.platform} ${release()}, Node ${process.version}`;
}

export function collectGarbage(): void {
  const gc = (globalThis as { gc?: () => void }).gc;
  if (gc === undefined) throw new Error("Run this through `npm run bench`: it needs --expose-gc.");
  gc();
  gc();
}
