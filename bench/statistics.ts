// Statistics over measured values.

/** The middle value; of an even number of values, the mean of the middle two. */
export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  const upper = sorted[middle] ?? Number.NaN;
  if (sorted.length % 2 === 1) return upper;
  const lower = sorted[middle - 1] ?? Number.NaN;
  return (lower + upper) / 2;
}

/** The smallest value that is not exceeded by the given share of all values. */
export function quantile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.max(0, Math.ceil(sorted.length * share) - 1)] ?? Number.NaN;
}

/** The p99. With fewer than 100 values that is the largest, and is labelled as such. */
export function worstCase(values: readonly number[]): { label: string; value: number } {
  const label = values.length < 100 ? `worst of ${values.length}` : "p99";
  return { label, value: quantile(values, 0.99) };
}

/** Smallest and largest value: "0.69-0.82". */
export function formatRange(values: readonly number[], digits = 2): string {
  return `${Math.min(...values).toFixed(digits)}-${Math.max(...values).toFixed(digits)}`;
}

export function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

/** The same items, starting `by` places further on, so that each of them comes first in turn. */
export function rotate<T>(items: readonly T[], by: number): T[] {
  const start = items.length === 0 ? 0 : by % items.length;
  return [...items.slice(start), ...items.slice(0, start)];
}
