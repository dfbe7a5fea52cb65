// Looks into a store file from outside, past our own code: who waits, what the tables say, whether
// the file is whole. Also the small arithmetic on measured times that several process tests share.
import Database from "better-sqlite3";
import type { Crew } from "./process-children.ts";

export function hostMs(): number {
  return Number(process.hrtime.bigint()) / 1e6;
}

/**
 * A connection of the test's own: runs one query and gives back its rows. Closed after the test.
 */
export function peek(crew: Crew, file: string): (sql: string) => Record<string, unknown>[] {
  const database = new Database(file, { timeout: 5_000 });
  crew.afterwards(() => database.close());
  return (sql) => database.prepare(sql).all() as Record<string, unknown>[];
}

/** The one number that a query asks for. */
export function numberOf(rows: readonly Record<string, unknown>[]): number {
  return Number(Object.values(rows[0] ?? {})[0]);
}

/** Looks again and again until the answer is yes: for facts that no process reports by itself. */
export async function until(what: string, isSo: () => boolean, limitMs = 20_000): Promise<void> {
  const giveUpAt = hostMs() + limitMs;
  while (!isSo()) {
    if (hostMs() > giveUpAt) throw new Error(`It never came true: ${what}.`);
    await new Promise((resolve) => setTimeout(resolve, 1));
  }
}

/** True when nobody is inside a write transaction. */
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
