// The SQL that creates, upgrades and removes the guard in a database, and that protects a table.
// The definitions are in functions.ts (ADR 014). All of it can be run repeatedly.

import { InvalidArgumentError } from "../../core/errors.ts";
import { checkOptionNames, type OptionNames } from "../../core/options.ts";
import { checkResource } from "../../core/resource.ts";
import { ADMIT, CLOSED_TO_ALL, PROTECT, TABLES } from "./functions.ts";

export const DEFAULT_SCHEMA = "tenure_guard";

/** The name is put into statements without quotes, so only names that need none are accepted. */
export function checkSchema(schema: unknown): string {
  if (typeof schema === "string" && /^[a-z_][a-z0-9_]{0,62}$/.test(schema)) return schema;
  throw new InvalidArgumentError(
    `\`prefix\`, the PostgreSQL schema, must be a name of a-z, 0-9 and _ that does not begin with a digit, at most 63 long; got ${JSON.stringify(schema)}.`,
  );
}

/** Options of guardSql(). */
export interface GuardSqlOptions extends PrefixOptions {
  /**
   * A role that writes under the guard. It gets the rights to call admit() and to read the highest
   * tokens.
   */
  readonly role?: string | undefined;
}

/**
 * The SQL that creates the guard in a database, or upgrades one of an earlier version of Tenure,
 * for use in migrations. Run it in one transaction, as the owner of the guard or as a role that may
 * create a schema. It can be run repeatedly.
 */
export function guardSql(options: GuardSqlOptions = {}): string {
  checkOptionNames("guardSql()", options, GUARD_SQL_OPTIONS);
  const schema = checkSchema(options.prefix ?? DEFAULT_SCHEMA);
  const parts = [
    "-- Creates the guard of Tenure, or upgrades one of an earlier version. The lock serialises processes that start together.",
    `SELECT pg_catalog.pg_advisory_xact_lock(pg_catalog.hashtext('tenure guard ${schema}'));`,
    TABLES,
    ADMIT,
    PROTECT,
    CLOSED_TO_ALL,
    options.role === undefined ? "" : grantsTo(options.role),
  ];
  return `${parts.join("\n").replaceAll("{schema}", schema).trim()}\n`;
}

/** Names the guard, for functions that need nothing else. */
export interface PrefixOptions {
  /** The PostgreSQL schema of the guard, as given to postgresGuard(). @default "tenure_guard" */
  readonly prefix?: string | undefined;
}

/** Options of protectTable() and protectSql(). */
export interface ProtectOptions extends PrefixOptions {
  /** The resource whose holder may write. */
  readonly resource: string;
}

export const PREFIX_OPTIONS: OptionNames<PrefixOptions> = { prefix: true };
export const PROTECT_OPTIONS: OptionNames<ProtectOptions> = { prefix: true, resource: true };
const GUARD_SQL_OPTIONS: OptionNames<GuardSqlOptions> = { prefix: true, role: true };

/**
 * The SQL that removes the guard and the protection of every table. From then on, nothing rejects a
 * former holder.
 */
export function removeGuardSql(options: PrefixOptions = {}): string {
  checkOptionNames("removeGuardSql()", options, PREFIX_OPTIONS);
  const schema = checkSchema(options.prefix ?? DEFAULT_SCHEMA);
  return [
    "-- CASCADE drops the triggers of protected tables together with their function.",
    `DROP FUNCTION IF EXISTS "${schema}".refuse_unadmitted() CASCADE;`,
    `DROP SCHEMA IF EXISTS "${schema}" CASCADE;\n`,
  ].join("\n");
}

/** The SQL that protects a table, for psql and migrations. Run guardSql() first. */
export function protectSql(table: string, options: ProtectOptions): string {
  checkOptionNames("protectSql()", options, PROTECT_OPTIONS);
  const schema = checkSchema(options.prefix ?? DEFAULT_SCHEMA);
  const resource = checkResource(options.resource);
  return `SELECT "${schema}".protect(${literal(checkTable(table))}, ${literal(resource)});\n`;
}

/** The SQL that removes the protection of a table. */
export function unprotectSql(table: string, options: PrefixOptions = {}): string {
  checkOptionNames("unprotectSql()", options, PREFIX_OPTIONS);
  const schema = checkSchema(options.prefix ?? DEFAULT_SCHEMA);
  return `SELECT "${schema}".unprotect(${literal(checkTable(table))});\n`;
}

/** The server parses the name by its own rules for quotes, so any text is accepted here. */
export function checkTable(table: unknown): string {
  if (typeof table === "string" && table !== "" && !table.includes("\0")) return table;
  throw new InvalidArgumentError(
    `Expected the name of a table, such as "public.settlement", got ${JSON.stringify(table) ?? String(table)}.`,
  );
}

/**
 * A text with a backslash gets the prefix E, so that it is correct with either setting of
 * standard_conforming_strings.
 */
export function literal(text: string): string {
  const quoted = `'${text.replaceAll("'", "''").replaceAll("\\", "\\\\")}'`;
  return text.includes("\\") ? `E${quoted}` : quoted;
}

/**
 * A text as an SQL expression that cannot be escaped from. A text of plain characters is quoted,
 * which the server parses faster. Any other text is encoded as hexadecimal digits.
 */
export function toSqlText(text: string): string {
  if (/^[\w./:-]+$/.test(text)) return `'${text}'`;
  return `convert_from(decode('${Buffer.from(text, "utf8").toString("hex")}', 'hex'), 'UTF8')`;
}

function grantsTo(role: string): string {
  if (typeof role !== "string" || role === "" || role.includes("\0")) {
    throw new InvalidArgumentError("`role` must be the name of a role of the database.");
  }
  const name = `"${role.replaceAll('"', '""')}"`;
  return [
    `GRANT USAGE ON SCHEMA "{schema}" TO ${name};`,
    `GRANT SELECT ON "{schema}".highest TO ${name};`,
    `GRANT EXECUTE ON FUNCTION "{schema}".admit(text, numeric, integer) TO ${name};`,
  ].join("\n");
}
