// Reads a store file directly, without our own code: its queue, its tables, and whether it is
// intact. Also has the arithmetic on measured times that several process tests share.
import Database from "better-sqlite3";
import type { Crew } from "./process-children.ts";

export function hostMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/**
 * Opens a separate connection, which is closed after the test. The result runs one query and
 * returns its rows.
 */
export function peek(crew: Crew, file: string): (sql: string) => Record<string, unknown>[] {
  const database = new Database(file, { timeout: 5_000 });
  crew.afterwards(() => database.close());
  return (sql) => database.prepare(sql).all() as Record<string, unknown>[];
}

/** The number in a result of one row and one column. */
export function numberOf(rows: readonly Record<string, unknown>[]): number {
  return Number(Object.values(rows[0] ?? {})[0]);
}

/** Polls until `condition` is true, for facts that no process reports by itself. */
export async function until(
  what: string,
  condition: () => boolean,
  limitMs = 20_000,
): Promise<void> {
  const giveUpAt = hostMs() + limitMs;
  while (!condition()) {
    if (hostMs() > giveUpAt) throw new Error(`This did not happen within ${limitMs} ms: ${what}.`);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

/** True if no process is in a write transaction. */
export function writeLockIsFree(file: string): boolean {
  const database = new Database(file, { timeout: 0 });
  try {
    database.exec("BEGIN IMMEDIATE; ROLLBACK");
    return true;
  } catch {
    return false;
  } finally {
    database.close();
  }
}

export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

export function ms(value: number): string {
  return `${value.toFixed(1)} ms`;
}
