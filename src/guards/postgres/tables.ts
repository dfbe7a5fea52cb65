// The calls that change the database's own definitions: the guard's schema where it is missing, and the protection of
// tables. Each is one message and so one transaction: all of it happens, or nothing.

import { InvalidArgumentError } from "../../core/errors.ts";
import { checkOptionNames } from "../../core/options.ts";
import { checkResource } from "../../core/resource.ts";
import { type Connection, connectionOf, type PostgresTarget } from "./connection.ts";
import {
  checkSchema,
  checkTable,
  DEFAULT_SCHEMA,
  guardSql,
  PROTECT_OPTIONS,
  protectSql,
  SCHEMA_OPTIONS,
  unprotectSql,
} from "./sql.ts";

/** Makes the schema only where it is missing, so that a role without the right to create can use one that is there. */
export async function makeReady(connection: Connection, schema: string): Promise<void> {
  const admit = `"${schema}".admit(text, numeric, integer)`;
  const [row] = await connection.run(`SELECT to_regprocedure('${admit}')::text AS admit`);
  if (row?.admit === null || row === undefined) await connection.run(guardSql({ schema }));
}

export interface TableOptions {
  /** The schema of the guard, not of the table. @default "tenure_guard" */
  readonly schema?: string | undefined;
}

/**
 * Installs a trigger on a table (`"public.settlement"`) and its partitions: from then on every insert, update, delete and
 * truncate is refused unless its transaction was admitted with a current token of the resource. Also from psql, an ORM or
 * a forgotten code path. For the owner of the table.
 */
export async function protectTable(
  target: PostgresTarget,
  table: string,
  options: TableOptions & { readonly resource: string },
): Promise<void> {
  const connection = connectionOf(target);
  checkOptionNames("protectTable()", options, PROTECT_OPTIONS);
  const schema = checkSchema(options?.schema ?? DEFAULT_SCHEMA);
  checkResource(options?.resource);
  const text = protectSql(table, { ...options, schema });
  await makeReady(connection, schema);
  await inWords(table, () => connection.run(text));
}

/** Takes the trigger away again: from then on nothing refuses a former holder's writes to this table. */
export async function unprotectTable(
  target: PostgresTarget,
  table: string,
  options: TableOptions = {},
): Promise<void> {
  const connection = connectionOf(target);
  checkOptionNames("unprotectTable()", options, SCHEMA_OPTIONS);
  await inWords(table, () => connection.run(unprotectSql(table, options)));
}

const REASONS: Readonly<Record<string, string>> = {
  "42P01": "there is no such table. Check the spelling, and name its schema",
  // Up to release 16; later ones say the above of a missing schema as well.
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

export async function inWords<T>(table: string, act: () => Promise<T>): Promise<T> {
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
