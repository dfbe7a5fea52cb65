// The guard for data in a SQLite database. The highest tokens are in a table of the same database,
// so the comparison, the new highest and the user's writes are one transaction. The guard works on
// the user's own open connection (better-sqlite3 or node:sqlite). SQLite's own errors, such as busy
// or disk full, are thrown unchanged, and nothing is written then.

import { checkPlace } from "../../clients/sqlite/file-identity.ts";
import type { OptionNames } from "../../core/options.ts";
import { checkResource } from "../../core/resource.ts";
import {
  admit,
  checkBound,
  GUARD_OPTIONS,
  type Guard,
  type GuardOptions,
  rejectAsync,
  rejectPromise,
  resolveLastingSource,
  resolveSource,
  splitArguments,
  type TokenSource,
} from "../guard.ts";
import {
  checkDatabase,
  checkTable,
  DEFAULT_TABLE,
  readFirst,
  type SqliteDatabase,
} from "./database.ts";
import { openAdmission } from "./protection.ts";
import { openTokens } from "./tokens.ts";

export type { AdvanceOptions, Guard, GuardOptions, TokenSource } from "../guard.ts";
export type { InspectOptions, ProtectedTable } from "../shared/protected-table.ts";
export type { SqliteDatabase, SqliteStatement } from "./database.ts";
export { protectedTables } from "./inspect.ts";
export { type ProtectOptions, protectSql, protectTable, unprotectTable } from "./protection.ts";
export { type ResetOptions, resetHighest } from "./reset.ts";

/** Options of sqliteGuard(). */
export interface SqliteGuardOptions extends GuardOptions {
  /**
   * The name of the table of the highest tokens, and the prefix of the guard's other tables and
   * triggers. They are created if they do not exist. All writers of the same data must use the same
   * one; otherwise they do not see each other's tokens. @default "tenure_guard"
   */
  readonly prefix?: string | undefined;
  /**
   * Allows a database on a network file system (NFS, SMB, FUSE and others). Set it only if no other
   * host can reach the file. Locks may not work across hosts, and then a stale token can be
   * admitted. @default false
   */
  readonly allowNetworkFileSystem?: boolean | undefined;
}

const SQLITE_GUARD_OPTIONS: OptionNames<SqliteGuardOptions> = {
  ...GUARD_OPTIONS,
  prefix: true,
  allowNetworkFileSystem: true,
};

/** A guard for data in a SQLite database. */
export interface SqliteGuard<Database extends SqliteDatabase> extends Guard {
  /**
   * Compares the token and runs the write in one immediate transaction, and returns the result of
   * the write. A stale token or a lost lease throws before the function is called. If the function
   * throws, everything is rolled back, including the highest token. The function must be
   * synchronous and must not begin or end a transaction itself. Without a source, it uses the lease
   * of the `lease.run()` around the call.
   */
  transaction<T>(write: (database: Database) => T): T;
  /** The same, with an explicit lease or token. */
  transaction<T>(source: TokenSource, write: (database: Database) => T): T;
  /** Raises the highest token to that of the source without writing anything else. */
  advance(source?: TokenSource): void;
  /** The highest token of the resource, or undefined before the first. */
  highest(resource: string): bigint | undefined;
  /** The names of the methods above that write, for boundedBy(). */
  readonly writeMethods: readonly "transaction"[];
}

/**
 * Creates a guard for the data of an open connection of better-sqlite3 or node:sqlite. All writers
 * of the same data need a guard, or use protectTable() to reject writes without one.
 */
export function sqliteGuard<Database extends SqliteDatabase>(
  database: Database,
  options: SqliteGuardOptions = {},
): SqliteGuard<Database> {
  const bound = checkBound("sqliteGuard()", options, SQLITE_GUARD_OPTIONS);
  const table = checkTable(options.prefix ?? DEFAULT_TABLE);
  const file = findFile(checkDatabase(database));
  // Rejects a file that another path also reaches.
  if (file !== undefined)
    checkPlace(file, { allowNetworkFileSystem: options.allowNetworkFileSystem ?? false });
  const tokens = openTokens(database, table);
  const admission = openAdmission(database, table);
  const begin = database.prepare("BEGIN IMMEDIATE");
  const commit = database.prepare("COMMIT");

  function guarded<T>(given: TokenSource | undefined, write: (database: Database) => T): T {
    rejectAsync(write);
    const resolve = file === undefined ? resolveSource : resolveLastingSource;
    const source = resolve(given, bound);
    const { resource } = source;
    // Outside the try block: if this fails (busy, or inside another transaction), there is nothing
    // to roll back.
    begin.run();
    try {
      const highest = tokens.read(resource);
      const token = admit(source, highest);
      if (token !== highest) tokens.advance(resource, token);
      const withdraw = admission.grant(resource, token);
      const result = write(database);
      rejectPromise(result);
      withdraw?.();
      // The write may have taken long, and its result must not be committed after the lease has
      // ended.
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
    writeMethods: ["transaction"],
    advance: (source) => guarded(source, () => undefined),
    highest: (resource) => tokens.read(checkResource(resource)),
  };
}

/** Undefined for a database in memory or a temporary one, whose tokens end with the process. */
function findFile(database: SqliteDatabase): string | undefined {
  const row = database.prepare("SELECT file FROM pragma_database_list WHERE name = 'main'").get();
  const file = readFirst(row);
  return typeof file === "string" && file !== "" ? file : undefined;
}

function rollBack(database: SqliteDatabase): void {
  try {
    database.exec("ROLLBACK");
  } catch {
    // SQLite has already rolled back, as it does when the disk is full. The caller gets the
    // original error.
  }
}
