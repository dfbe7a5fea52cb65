// Protected tables: triggers that reject every insert, update and delete unless the transaction was
// admitted by a guard. SQLite has neither session variables nor transaction ids, so the admission
// is a row that exists only during the transaction. The guard inserts it after the comparison and
// deletes it before the commit. SQLite has one writer at a time, so no other connection ever sees
// the row.

import { InvalidArgumentError } from "../../core/errors.ts";
import { checkOptionNames, type OptionNames } from "../../core/options.ts";
import { checkResource } from "../../core/resource.ts";
import { padToken } from "../../core/token.ts";
import {
  checkDatabase,
  checkTable,
  DEFAULT_TABLE,
  readFirst,
  type SqliteDatabase,
  type SqliteStatement,
  TOKEN_CHECK,
} from "./database.ts";
import { createTable, keepSql } from "./tokens.ts";

/** Options of protectTable() and protectSql(). */
export interface ProtectOptions {
  /** The resource whose holder may write. */
  readonly resource: string;
  /** The table of the highest tokens, as given to sqliteGuard(). @default "tenure_guard" */
  readonly prefix?: string | undefined;
}

const PROTECT_OPTIONS: OptionNames<ProtectOptions> = { prefix: true, resource: true };

/**
 * Makes the table reject all writes outside a guarded transaction of this resource, including
 * writes of other connections, other programs and forgotten code paths. The table can still be
 * dropped and altered.
 */
export function protectTable(
  database: SqliteDatabase,
  name: string,
  options: ProtectOptions,
): void {
  checkOptionNames("protectTable()", options, PROTECT_OPTIONS);
  const text = protectSql(name, options);
  const table = checkTable(options.prefix ?? DEFAULT_TABLE);
  checkDatabase(database);
  const kind = readFirst(
    database
      .prepare(
        "SELECT type FROM sqlite_schema WHERE lower(name) = lower(?) AND type IN ('table', 'view')",
      )
      .get(name),
  );
  if (kind === undefined) throw unchanged(name, "there is no such table. Check the spelling");
  if (kind !== "table") throw unchanged(name, "it is a view; protect the tables that it reads");
  if (readFirst(database.prepare(TRIGGERS_OF).get(name)) !== undefined) {
    throw unchanged(
      name,
      "it is protected already. Call unprotectTable() first to change its resource",
    );
  }
  createTable(database, table);
  inTransaction(database, () => database.exec(text));
}

/** Removes the triggers. From then on, nothing rejects a former holder's writes to this table. */
export function unprotectTable(database: SqliteDatabase, name: string): void {
  checkDatabase(database);
  const first = database.prepare(TRIGGERS_OF);
  let trigger = readFirst(first.get(checkName(name)));
  if (trigger === undefined) throw unchanged(name, "it is not protected");
  inTransaction(database, () => {
    // Uses the names found in the schema, because the table may have been renamed.
    for (; trigger !== undefined; trigger = readFirst(first.get(name)))
      database.exec(`DROP TRIGGER ${quoted(String(trigger))}`);
  });
}

/** The SQL of protectTable(), for migrations. The table of the guard must exist. */
export function protectSql(name: string, options: ProtectOptions): string {
  checkOptionNames("protectSql()", options, PROTECT_OPTIONS);
  const table = checkTable(options?.prefix ?? DEFAULT_TABLE);
  const resource = checkResource(options?.resource);
  checkName(name);
  if (
    name.toLowerCase() === table.toLowerCase() ||
    name.toLowerCase() === `${table}_admitted`.toLowerCase()
  )
    throw unchanged(name, "it is the guard's own");
  const refusal = literal(
    `${name} takes writes only from the holder of ${literal(resource)}: use a guard. Nothing was written.`,
  );
  const triggers = EVENTS.map(
    (
      event,
    ) => `CREATE TRIGGER ${quoted(`tenure_guard:${name}:${event}`.toLowerCase())} BEFORE ${event} ON ${quoted(name)}
  WHEN NOT EXISTS (${admittedRows(table, resource)})
  BEGIN SELECT RAISE(ABORT, ${refusal}); END;`,
  );
  return `${keepSql(table)}${admissionSql(table)}${triggers.join("\n")}\n`;
}

export const EVENTS = ["INSERT", "UPDATE", "DELETE"] as const;

/** A query for the admission of the current transaction. */
export function admittedRows(table: string, resource: string): string {
  return `SELECT 1 FROM ${table}_admitted a JOIN ${table} g ON g.resource = a.resource
    WHERE a.resource = ${literal(resource)} AND a.token = g.token`;
}

/**
 * The column \`open\` references a row that cannot exist, and SQLite checks that at commit. If
 * foreign keys are enabled, as they are by default in both libraries, a transaction that left its
 * admission cannot commit. The trigger makes the comparison for programs in other languages.
 */
function admissionSql(table: string): string {
  return `CREATE TABLE IF NOT EXISTS ${table}_admitted (
  resource TEXT PRIMARY KEY NOT NULL CHECK (resource <> ''),
  token TEXT NOT NULL CHECK (${TOKEN_CHECK}),
  open TEXT NOT NULL DEFAULT '' CHECK (open = '') REFERENCES ${table}_admitted (resource) DEFERRABLE INITIALLY DEFERRED
) WITHOUT ROWID;
CREATE TRIGGER IF NOT EXISTS ${table}_admit BEFORE INSERT ON ${table}_admitted BEGIN
  SELECT RAISE(ABORT, 'The token is stale: a higher one has been seen. Nothing was written.')
  WHERE EXISTS (SELECT 1 FROM ${table} WHERE resource = NEW.resource AND token > NEW.token);
  INSERT INTO ${table} (resource, token) VALUES (NEW.resource, NEW.token)
  ON CONFLICT (resource) DO UPDATE SET token = excluded.token WHERE excluded.token > token;
END;
`;
}

export interface Admission {
  /**
   * Allows this transaction to write to protected tables. The returned function ends that and must
   * be called before the commit.
   */
  grant(resource: string, token: bigint): (() => void) | undefined;
}

/** While no table is protected, an admission costs only one read of the schema version. */
export function openAdmission(database: SqliteDatabase, table: string): Admission {
  const findTable = database.prepare(
    `SELECT 1 FROM pragma_table_info('${table}_admitted') LIMIT 1`,
  );
  // SQLite counts the changes of its schema. Reading that number is faster than searching for the
  // table.
  const version = database.prepare("PRAGMA schema_version");
  let checkedVersion: unknown;
  let statements: { readonly put: SqliteStatement; readonly take: SqliteStatement } | undefined;
  return {
    grant: (resource, token) => {
      if (statements === undefined) {
        // Another process may have protected a table after this guard was opened.
        const now = readFirst(version.get());
        if (now === checkedVersion) return undefined;
        checkedVersion = now;
        if (findTable.get() === undefined) return undefined;
      }
      statements ??= {
        put: database.prepare(`INSERT INTO ${table}_admitted (resource, token) VALUES (?, ?)`),
        take: database.prepare(`DELETE FROM ${table}_admitted WHERE resource = ?`),
      };
      const { put, take } = statements;
      // A row that was left over must not lock out the holder. No other transaction can be using
      // it, because we have the write lock.
      take.run(resource);
      put.run(resource, padToken(token));
      return () => void take.run(resource);
    },
  };
}

const TRIGGERS_OF = `SELECT name FROM sqlite_schema
  WHERE type = 'trigger' AND lower(tbl_name) = lower(?) AND name LIKE 'tenure_guard:%' LIMIT 1`;

export function inTransaction<T>(database: SqliteDatabase, change: () => T): T {
  database.exec("BEGIN IMMEDIATE");
  try {
    const result = change();
    database.exec("COMMIT");
    return result;
  } catch (error) {
    database.exec("ROLLBACK");
    throw error;
  }
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

function literal(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}

export function checkName(name: unknown): string {
  if (typeof name === "string" && name !== "" && !name.includes("\0")) return name;
  throw new InvalidArgumentError(
    `Expected the name of a table, such as "entry", got ${JSON.stringify(name) ?? String(name)}.`,
  );
}

function unchanged(name: string, reason: string): InvalidArgumentError {
  return new InvalidArgumentError(
    `The protection of the table ${name} was not changed: ${reason}.`,
  );
}
