// The functions that change definitions in the database: they create the guard's schema if it is
// missing, and protect tables. Each sends one message, which the server runs as one transaction.

import { InvalidArgumentError } from "../../core/errors.ts";
import { checkOptionNames } from "../../core/options.ts";
import { checkResource } from "../../core/resource.ts";
import { type Connection, type PostgresTarget, toConnection } from "./connection.ts";
import {
  checkSchema,
  checkTable,
  DEFAULT_SCHEMA,
  guardSql,
  PREFIX_OPTIONS,
  PROTECT_OPTIONS,
  type PrefixOptions,
  type ProtectOptions,
  protectSql,
  unprotectSql,
} from "./sql.ts";

/**
 * Creates the schema if it is missing, and upgrades one of an earlier version (which has no secret)
 * if this role owns it. A role without these rights uses the schema as it is.
 */
export async function ensureSchema(connection: Connection, schema: string): Promise<void> {
  const [row] = await connection.run(`
    SELECT (bool_or(c.relname = 'highest') IS NOT TRUE
      OR bool_or(c.relname = 'secret') IS NOT TRUE AND has_schema_privilege('${schema}', 'CREATE')
        AND bool_or(c.relname = 'highest' AND pg_has_role(c.relowner, 'USAGE')))::text AS outdated
    FROM pg_catalog.pg_namespace n JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid WHERE n.nspname = '${schema}'`);
  if (row?.outdated === "true") await connection.run(guardSql({ prefix: schema }));
}

/**
 * Installs a trigger on a table (`"public.settlement"`) and its partitions. It rejects every
 * insert, update, delete and truncate of a transaction that was not admitted with a current token
 * of the resource, including those of psql, an ORM or a forgotten code path. Only the owner of the
 * table may call it.
 */
export async function protectTable(
  target: PostgresTarget,
  table: string,
  options: ProtectOptions,
): Promise<void> {
  const connection = toConnection(target);
  checkOptionNames("protectTable()", options, PROTECT_OPTIONS);
  const schema = checkSchema(options?.prefix ?? DEFAULT_SCHEMA);
  checkResource(options?.resource);
  const text = protectSql(table, { ...options, prefix: schema });
  await ensureSchema(connection, schema);
  await explainErrors(table, () => connection.run(text));
}

/** Removes the trigger. From then on, nothing rejects a former holder's writes to this table. */
export async function unprotectTable(
  target: PostgresTarget,
  table: string,
  options: PrefixOptions = {},
): Promise<void> {
  const connection = toConnection(target);
  checkOptionNames("unprotectTable()", options, PREFIX_OPTIONS);
  await explainErrors(table, () => connection.run(unprotectSql(table, options)));
}

const REASONS: Readonly<Record<string, string>> = {
  "42P01": "there is no such table. Check the spelling, and name its schema",
  // Up to PostgreSQL 16. Later versions report 42P01 for a missing schema, too.
  "3F000": "there is no such table, nor its schema. Check the spelling",
  "42602": "this is not a name",
  "42809":
    "only tables and partitioned tables can be protected, none of the system's and not the guard's own",
  "42710":
    "it is protected already, or one of its partitions is. Call unprotectTable() first to change its resource",
  "42704": "it is not protected",
  "42501": "only an owner of the table and the guard's schema may do this",
  "42883": "the guard is not in this database. Run guardSql() first",
};

/**
 * Runs the change, and turns known errors of PostgreSQL into InvalidArgumentError with a reason.
 */
export async function explainErrors<T>(table: string, act: () => Promise<T>): Promise<T> {
  checkTable(table);
  try {
    return await act();
  } catch (error) {
    const reason = REASONS[(error as { code?: string }).code ?? ""];
    if (reason === undefined) throw error;
    throw new InvalidArgumentError(
      `The protection of the table ${table} was not changed: ${reason}. PostgreSQL says: ${(error as Error).message}.`,
      { cause: error },
    );
  }
}
