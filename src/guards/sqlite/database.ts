// The part of a SQLite connection that the guard uses, and the checks of names that it puts into
// statements.

import { InvalidArgumentError } from "../../core/errors.ts";

/** Implemented by Database of better-sqlite3 and DatabaseSync of node:sqlite. */
export interface SqliteDatabase {
  /** Runs SQL without parameters. */
  exec(sql: string): unknown;
  /** Compiles one statement. */
  prepare(sql: string): SqliteStatement;
}

/** The part of a prepared statement that the guard uses. */
export interface SqliteStatement {
  /** Runs the statement and ignores its rows. */
  run(...values: string[]): unknown;
  /** Runs the statement and returns its first row, or undefined. */
  get(...values: string[]): unknown;
}

export const DEFAULT_TABLE = "tenure_guard";

export function checkDatabase<Database extends SqliteDatabase>(database: Database): Database {
  if (typeof database?.exec === "function" && typeof database.prepare === "function")
    return database;
  throw new InvalidArgumentError(
    "The SQLite guard needs an open connection: a Database of better-sqlite3 or a DatabaseSync of node:sqlite.",
  );
}

/** The name is put into statements without quotes, so only names that need none are accepted. */
export function checkTable(table: string): string {
  if (typeof table === "string" && /^[A-Za-z_][A-Za-z0-9_]{0,62}$/.test(table)) return table;
  throw new InvalidArgumentError(
    `\`prefix\`, the table of the highest tokens, must be a plain name (letters, digits and _, at most 63), got ${JSON.stringify(table)}.`,
  );
}

/**
 * The first value of a row. Read by position, because a connection may be configured to return
 * arrays.
 */
export function readFirst(row: unknown): unknown {
  return Object.values((row ?? {}) as object)[0];
}

/** Tokens are stored as 39 digits with leading zeros, so that SQLite compares them as text. */
export const TOKEN_CHECK = "length(token) = 39 AND token NOT GLOB '*[^0-9]*'";
