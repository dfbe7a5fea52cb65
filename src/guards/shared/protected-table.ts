// What protectedTables() of the guards on PostgreSQL and SQLite takes and returns.

import type { OptionNames } from "../../core/options.ts";

/** A protected table and the state of its protection. */
export interface ProtectedTable {
  /** The name of the table. In PostgreSQL with its schema, quoted where necessary. */
  readonly table: string;
  /** The resource whose holder may write to the table. */
  readonly resource: string;
  /** Where the highest tokens are: a schema (PostgreSQL) or a table (SQLite). */
  readonly guard: string;
  /** What is wrong and how to fix it. Undefined if the protection is intact. */
  readonly fault: string | undefined;
}

/** Options of protectedTables(). */
export interface InspectOptions {
  /** Only this table. @default all protected tables */
  readonly table?: string | undefined;
}

export const INSPECT_OPTIONS: OptionNames<InspectOptions> = { table: true };
