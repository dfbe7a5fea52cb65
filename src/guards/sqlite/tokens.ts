// The table of highest tokens in the user's database, and the triggers that keep a token from being
// lowered or deleted.

import { InvalidArgumentError } from "../../core/errors.ts";
import { decodeToken } from "../../core/record.ts";
import { padToken } from "../../core/token.ts";
import { readFirst, type SqliteDatabase, TOKEN_CHECK } from "./database.ts";

export interface Tokens {
  read(resource: string): bigint | undefined;
  advance(resource: string, token: bigint): void;
}

/** Prepares the statements. Tokens are text of 39 digits, because SQLite's integers end at 2^63. */
export function openTokens(database: SqliteDatabase, table: string): Tokens {
  createTable(database, table);
  const read = database.prepare(`SELECT token FROM ${table} WHERE resource = ?`);
  // The WHERE clause repeats the rule, so that no bug elsewhere can lower a highest token.
  const advance = database.prepare(
    `INSERT INTO ${table} (resource, token) VALUES (?, ?)
     ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE excluded.token > token`,
  );
  // Caches the last token: a holder writes repeatedly with the same one, and parsing 39 digits
  // takes as long as reading the row.
  let latest: { readonly text: unknown; readonly token: bigint | undefined } = {
    text: undefined,
    token: undefined,
  };
  return {
    read: (resource) => {
      const row = read.get(resource);
      if (row === undefined) return undefined;
      const text = readFirst(row);
      if (latest.text !== text) latest = { text, token: decodeToken(String(text)) };
      return latest.token;
    },
    advance: (resource, token) => void advance.run(resource, padToken(token)),
  };
}

export function createTable(database: SqliteDatabase, table: string): void {
  const columns = database.prepare(`SELECT group_concat(name) FROM pragma_table_info('${table}')`);
  const found = (): unknown => readFirst(columns.get());
  // Checked first, so that opening a guard takes the write lock only when it creates the table.
  if (found() === null) {
    database.exec(
      `CREATE TABLE IF NOT EXISTS ${table} (
         resource TEXT PRIMARY KEY NOT NULL,
         token TEXT NOT NULL CHECK (${TOKEN_CHECK})
       ) WITHOUT ROWID; ${keepSql(table)}`,
    );
  }
  if (found() !== "resource,token") {
    throw new InvalidArgumentError(
      `The table ${table} belongs to something else (its columns are ${String(found())}). It was not touched. ` +
        "Name another one: sqliteGuard(database, { table }).",
    );
  }
  if (missingKeepers(database, table).length > 0) addKeepers(database, table);
}

const FALLS =
  "The highest tokens never fall and are never deleted: a former holder could write again.";

/**
 * The triggers that keep a highest token from being lowered or deleted by hand: SQL by trigger
 * name.
 */
function keeperTriggers(table: string): Readonly<Record<string, string>> {
  const refuse = `BEGIN SELECT RAISE(ABORT, '${FALLS}'); END`;
  return {
    // REPLACE deletes rows without firing DELETE triggers, unless recursive triggers are enabled.
    [`${table}_keep_insert`]: `BEFORE INSERT ON ${table}
  WHEN EXISTS (SELECT 1 FROM ${table} WHERE resource = NEW.resource AND token > NEW.token) ${refuse}`,
    [`${table}_keep_update`]: `BEFORE UPDATE ON ${table}
  WHEN NEW.resource IS NOT OLD.resource OR NEW.token < OLD.token ${refuse}`,
    [`${table}_keep_delete`]: `BEFORE DELETE ON ${table} ${refuse}`,
  };
}

export function keepSql(table: string): string {
  return Object.entries(keeperTriggers(table))
    .map(([name, text]) => `CREATE TRIGGER IF NOT EXISTS ${name} ${text};\n`)
    .join("");
}

/** The names of the triggers that are missing or were changed. */
export function missingKeepers(database: SqliteDatabase, table: string): string[] {
  const find = database.prepare(
    "SELECT 1 FROM sqlite_schema WHERE type = 'trigger' AND name = ? AND instr(sql, ?) > 0",
  );
  return Object.entries(keeperTriggers(table))
    .filter(([name, text]) => find.get(name, text) === undefined)
    .map(([name]) => name);
}

/** Adds the triggers to a table that an earlier version created. */
function addKeepers(database: SqliteDatabase, table: string): void {
  try {
    database.exec(keepSql(table));
  } catch {
    // The file is busy or read-only. The guard works without them, and the next guard to be opened
    // tries again.
  }
}
