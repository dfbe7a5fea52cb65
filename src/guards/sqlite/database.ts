// What the SQLite guard needs of a connection, and the names it puts into statements.

import { InvalidArgumentError } from "../../core/errors.ts";

/** better-sqlite3's Database and node:sqlite's DatabaseSync both have it. */
export interface SqliteDatabase {
  exec(sql: string): unknown;
  prepare(sql: string): SqliteStatement;
}

export interface SqliteStatement {
  run(...values: string[]): unknown;
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

/** Put into statements as it is, so only a name passes that needs no quoting. */
export function checkTable(table: string): string {
  if (typeof table === "string" && /^[A-Za-z_][A-Za-z0-9_]{0,62}$/.test(table)) return table;
  throw new InvalidArgumentError(
    `\`table\` must be a plain name (letters, digits and _, at most 63), got ${JSON.stringify(table)}.`,
  );
}

/** The first value of a row. By position: a connection may be set to give rows as arrays. */
export function readFirst(row: unknown): unknown {
  return Object.values((row ?? {}) as object)[0];
}

export const TOKEN_CHECK = "length(token) = 39 AND token NOT GLOB '*[^0-9]*'";
