// The table of highest tokens in the user's own database.

import { InvalidArgumentError } from "../../core/errors.ts";
import { padToken, parseToken } from "../../core/token.ts";
import { firstOf, type SqliteDatabase, TOKEN_CHECK } from "./database.ts";

export interface Tokens {
  read(resource: string): bigint | undefined;
  raise(resource: string, token: bigint): void;
}

/** The statements on the table of tokens: 39 digits with leading zeros, because SQLite's integers end at 2^63. */
export function openTokens(database: SqliteDatabase, table: string): Tokens {
  createTable(database, table);
  const read = database.prepare(`SELECT token FROM ${table} WHERE resource = ?`);
  // The WHERE repeats the rule in SQL: no mistake above can make a highest fall.
  const raise = database.prepare(
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
      const text = firstOf(row);
      if (latest.text !== text) latest = { text, token: parseToken(String(text)) };
      return latest.token;
    },
    raise: (resource, token) => void raise.run(resource, padToken(token)),
  };
}

export function createTable(database: SqliteDatabase, table: string): void {
  const columns = database.prepare(`SELECT group_concat(name) FROM pragma_table_info('${table}')`);
  const found = (): unknown => firstOf(columns.get());
  // Looked up first, so that opening a guard takes the write lock only once in the life of a database.
  if (found() === null) {
    database.exec(
      `CREATE TABLE IF NOT EXISTS ${table} (
         resource TEXT PRIMARY KEY NOT NULL,
         token TEXT NOT NULL CHECK (${TOKEN_CHECK})
       ) WITHOUT ROWID`,
    );
  }
  if (found() !== "resource,token") {
    throw new InvalidArgumentError(
      `The table ${table} belongs to something else (its columns are ${String(found())}). It was not touched. ` +
        "Name another one: sqliteGuard(database, { table }).",
    );
  }
}
