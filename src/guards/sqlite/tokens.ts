// The table of highest tokens in the user's own database.

import { InvalidArgumentError } from "../../core/errors.ts";
import { padToken, parseToken } from "../../core/token.ts";
import { readFirst, type SqliteDatabase, TOKEN_CHECK } from "./database.ts";

export interface Tokens {
  read(resource: string): bigint | undefined;
  advance(resource: string, token: bigint): void;
}

/** The statements on the table of tokens: 39 digits with leading zeros, because SQLite's integers end at 2^63. */
export function openTokens(database: SqliteDatabase, table: string): Tokens {
  createTable(database, table);
  const read = database.prepare(`SELECT token FROM ${table} WHERE resource = ?`);
  // The WHERE repeats the rule in SQL: no mistake above can make a highest fall.
  const advance = database.prepare(
    `INSERT INTO ${table} (resource, token) VALUES (?, ?)
     ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE excluded.token > token`,
  );
  // A holder writes again and again under the same token, and making a number of 39 digits takes as long as reading them.
  let latest: { readonly text: unknown; readonly token: bigint | undefined } = {
    text: undefined,
    token: undefined,
  };
  return {
    read: (resource) => {
      const row = read.get(resource);
      if (row === undefined) return undefined;
      const text = readFirst(row);
      if (latest.text !== text) latest = { text, token: parseToken(String(text)) };
      return latest.token;
    },
    advance: (resource, token) => void advance.run(resource, padToken(token)),
  };
}

export function createTable(database: SqliteDatabase, table: string): void {
  const columns = database.prepare(`SELECT group_concat(name) FROM pragma_table_info('${table}')`);
  const found = (): unknown => readFirst(columns.get());
  // Looked up first, so that opening a guard takes the write lock only once in the life of a database.
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

/** The triggers that keep the highest from being lowered by hand: what each is named after its table, and what it does. */
function keeperTriggers(table: string): Readonly<Record<string, string>> {
  const refuse = `BEGIN SELECT RAISE(ABORT, '${FALLS}'); END`;
  return {
    // REPLACE deletes rows without a DELETE trigger, unless recursive triggers are on.
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

/** Those that are not there, or not as they were installed. */
export function missingKeepers(database: SqliteDatabase, table: string): string[] {
  const find = database.prepare(
    "SELECT 1 FROM sqlite_schema WHERE type = 'trigger' AND name = ? AND instr(sql, ?) > 0",
  );
  return Object.entries(keeperTriggers(table))
    .filter(([name, text]) => find.get(name, text) === undefined)
    .map(([name]) => name);
}

/** For a table that an earlier version created. */
function addKeepers(database: SqliteDatabase, table: string): void {
  try {
    database.exec(keepSql(table));
  } catch {
    // The file is busy or opened for reading only. The guard compares without them, and the next one that is opened tries again.
  }
}
