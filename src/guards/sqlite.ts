// The guard for data in a SQLite database: the highest tokens live in a table of that same database, so that the
// comparison, the raised highest and the user's writes are one transaction, committed or rolled back together.
// It works on the user's own open connection (better-sqlite3 or node:sqlite). SQLite's own errors, such as busy or
// disk full, come out unchanged, as from any transaction of the user; nothing is written then.

import { InvalidArgumentError } from "../core/errors.ts";
import { checkResource } from "../core/resource.ts";
import { padToken, parseToken } from "../core/token.ts";
import {
  admit,
  checkBound,
  type Guard,
  type GuardOptions,
  refuseAsync,
  refusePromise,
  sourceOf,
  splitArguments,
  type TokenSource,
} from "./guard.ts";

export type { Guard, GuardOptions, TokenSource } from "./guard.ts";

/** What the guard needs of a connection: better-sqlite3's Database and node:sqlite's DatabaseSync both have it. */
export interface SqliteDatabase {
  exec(sql: string): unknown;
  prepare(sql: string): SqliteStatement;
}

export interface SqliteStatement {
  run(...values: string[]): unknown;
  get(...values: string[]): unknown;
}

export interface SqliteGuardOptions extends GuardOptions {
  /**
   * The table that keeps the highest tokens; made when it does not exist. All who write to the same data must name the
   * same table, or they do not see each other's tokens. @default "tenure_guard"
   */
  readonly table?: string | undefined;
}

export interface SqliteGuard<Database extends SqliteDatabase> extends Guard {
  /**
   * Runs the write in one immediate transaction, behind the comparison, and returns what it returns. A stale token or
   * a lost lease throws before the function is called; when the function throws, all is rolled back, also the highest.
   * The function must be synchronous and must not begin or end a transaction of its own. Without a source: under the
   * lease of the `lease.run()` around the call.
   */
  transaction<T>(write: (database: Database) => T): T;
  transaction<T>(source: TokenSource, write: (database: Database) => T): T;
  raise(source?: TokenSource): void;
  highest(resource: string): bigint | undefined;
}

export function sqliteGuard<Database extends SqliteDatabase>(
  database: Database,
  options: SqliteGuardOptions = {},
): SqliteGuard<Database> {
  const bound = checkBound(options);
  const table = checkTable(options.table ?? "tenure_guard");
  const tokens = openTokens(checkDatabase(database), table);
  const begin = database.prepare("BEGIN IMMEDIATE");
  const commit = database.prepare("COMMIT");

  function guarded<T>(given: TokenSource | undefined, write: (database: Database) => T): T {
    refuseAsync(write);
    const source = sourceOf(given, bound);
    const { resource } = source;
    // Outside of the try: where this fails (busy, or inside another transaction) there is nothing of ours to roll back.
    begin.run();
    try {
      const highest = tokens.read(resource);
      const token = admit(source, highest);
      if (token !== highest) tokens.raise(resource, token);
      const result = write(database);
      refusePromise(result);
      // The write may have taken long. What a lease allowed at its start is not committed after its end.
      source.check?.();
      commit.run();
      return result;
    } catch (error) {
      rollBack(database);
      throw error;
    }
  }

  return {
    transaction<T>(...args: [TokenSource, (db: Database) => T] | [(db: Database) => T]): T {
      const [source, write] = splitArguments(args);
      return guarded(source, write);
    },
    raise: (source) => guarded(source, () => undefined),
    highest: (resource) => tokens.read(checkResource(resource)),
  };
}

interface Tokens {
  read(resource: string): bigint | undefined;
  raise(resource: string, token: bigint): void;
}

/** The statements on the table of tokens: 39 digits with leading zeros, because SQLite's integers end at 2^63. */
function openTokens(database: SqliteDatabase, table: string): Tokens {
  createTable(database, table);
  const read = database.prepare(`SELECT token FROM ${table} WHERE resource = ?`);
  // The WHERE repeats the rule in SQL: no mistake above can make a highest fall.
  const raise = database.prepare(
    `INSERT INTO ${table} (resource, token) VALUES (?, ?)
     ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE excluded.token > token`,
  );
  return {
    read: (resource) => {
      const row = read.get(resource);
      // By position: a connection may be set to give rows as arrays.
      return row === undefined ? undefined : parseToken(String(Object.values(row as object)[0]));
    },
    raise: (resource, token) => void raise.run(resource, padToken(token)),
  };
}

function createTable(database: SqliteDatabase, table: string): void {
  const columns = database.prepare(`SELECT group_concat(name) FROM pragma_table_info('${table}')`);
  const found = (): unknown => Object.values((columns.get() ?? {}) as object)[0];
  // Looked up first, so that opening a guard takes the write lock only once in the life of a database.
  if (found() === null) {
    database.exec(
      `CREATE TABLE IF NOT EXISTS ${table} (
         resource TEXT PRIMARY KEY NOT NULL,
         token TEXT NOT NULL CHECK (length(token) = 39 AND token NOT GLOB '*[^0-9]*')
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

function rollBack(database: SqliteDatabase): void {
  try {
    database.exec("ROLLBACK");
  } catch {
    // SQLite has rolled back by itself, as it does when the disk is full. The caller gets the error that led here.
  }
}

function checkDatabase(database: SqliteDatabase): SqliteDatabase {
  if (typeof database?.exec === "function" && typeof database.prepare === "function")
    return database;
  throw new InvalidArgumentError(
    "sqliteGuard(database) needs an open connection: a Database of better-sqlite3 or a DatabaseSync of node:sqlite.",
  );
}

function checkTable(table: string): string {
  if (typeof table === "string" && /^[A-Za-z_][A-Za-z0-9_]{0,62}$/.test(table)) return table;
  throw new InvalidArgumentError(
    `\`table\` must be a plain name (letters, digits and _, at most 63), got ${JSON.stringify(table)}.`,
  );
}
