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
  /** Where a peer does better: which one, and what it does less for that or asks more, where we know. */
  readonly ahead?: { readonly peer: string; readonly why?: string };
}

/** What was measured for one contestant, as numbers: the pictures are drawn from these. */
export interface Series {
  /** "pairs"; "each" is a whole distribution. */
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
  /** When ("on ..." or "before ..."), with which versions and where; added when it is published. */
  readonly measured?: {
    readonly when: string;
    /** Missing where nobody wrote them down. */
    readonly versions?: string;
    readonly machine: string;
  };
}

export async function inTempFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = mkdtempSync(join(tmpdir(), "tenure-bench-"));
  try {
    return await work(folder);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Of an even count the mean of the middle two. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  if (sorted.length % 2 === 1) return upper;
  const lower = sorted[middle - 1] ?? Number.NaN;
  return (lower + upper) / 2;
}

/** The smallest value that so large a share of them does not exceed. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
}

/** The p99, by its name; of fewer than a hundred it would be the largest of them, and so it is called that. */
export function highEnd(values: readonly number[]): {
  readonly name: string;
  readonly value: number;
} {
  const name = values.length < 100 ? `worst of ${values.length}` : "p99";
  return { name, value: quantile(values, 0.99) };
}

/** The same, begun at another one each time: nobody is always the first, on a machine that is fresh from a pause. */
export function rotated<T>(all: readonly T[], by: number): T[] {
  const start = all.length === 0 ? 0 : by % all.length;
  return [...all.slice(start), ...all.slice(0, start)];
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
