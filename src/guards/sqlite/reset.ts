// Deletes the highest token of one resource, for a move to a store whose tokens are lower. The
// trigger that forbids deletion is dropped and created again in the same transaction, so no other
// connection ever sees the table without it.

import { InvalidArgumentError } from "../../core/errors.ts";
import { checkOptionNames, type OptionNames } from "../../core/options.ts";
import { checkResource } from "../../core/resource.ts";
import { checkToken, padToken, parseToken } from "../../core/token.ts";
import {
  checkDatabase,
  checkTable,
  DEFAULT_TABLE,
  readFirst,
  type SqliteDatabase,
} from "./database.ts";
import { inTransaction } from "./protection.ts";
import { keepSql } from "./tokens.ts";

/** Options of resetHighest(). */
export interface ResetOptions {
  /** The highest token, as highest() returned it. If it has changed since, nothing is reset. */
  readonly highest: bigint;
  /** The table of the highest tokens, as given to sqliteGuard(). @default "tenure_guard" */
  readonly prefix?: string | undefined;
}

const RESET_OPTIONS: OptionNames<ResetOptions> = { highest: true, prefix: true };

/**
 * Deletes the highest token of a resource, so that the guard admits the next token, whatever its
 * value. It then also admits late writes of every former holder. Call it only when no process is
 * left that holds, or held, a lease of the old store. Returns false if the highest is another
 * token, and true if none is left.
 */
export function resetHighest(
  database: SqliteDatabase,
  resource: string,
  options: ResetOptions,
): boolean {
  checkOptionNames("resetHighest()", options, RESET_OPTIONS);
  checkResource(resource);
  const highest = checkToken(options?.highest);
  const table = checkGuardTable(database, options.prefix);
  return inTransaction(database, () => {
    database.exec(`DROP TRIGGER IF EXISTS ${table}_keep_delete`);
    const remove = database.prepare(`DELETE FROM ${table} WHERE resource = ? AND token = ?`);
    remove.run(resource, padToken(highest));
    database.exec(keepSql(table));
    return readHighest(database, resource, table) === undefined;
  });
}

/** Reads the highest token without opening a guard, which would create its table. */
export function readHighest(
  database: SqliteDatabase,
  resource: string,
  table?: string | undefined,
): bigint | undefined {
  const name = checkGuardTable(database, table);
  const row = database
    .prepare(`SELECT token FROM ${name} WHERE resource = ?`)
    .get(checkResource(resource));
  return row === undefined ? undefined : parseToken(String(readFirst(row)));
}

function checkGuardTable(database: SqliteDatabase, given: string | undefined): string {
  const table = checkTable(given ?? DEFAULT_TABLE);
  const columns = checkDatabase(database)
    .prepare(`SELECT group_concat(name) FROM pragma_table_info('${table}')`)
    .get();
  if (readFirst(columns) === "resource,token") return table;
  throw new InvalidArgumentError(
    `This database has no guard with the table ${table}. Nothing was changed. Check the file and the name of the table.`,
  );
}
