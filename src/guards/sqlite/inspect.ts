// Lists the protected tables and checks that their protection is intact. Triggers can be dropped
// one by one, and a row left in the admission table allows writes to every table of its resource.

import { checkOptionNames } from "../../core/options.ts";
import {
  INSPECT_OPTIONS,
  type InspectOptions,
  type ProtectedTable,
} from "../shared/protected-table.ts";
import { checkDatabase, readFirst, type SqliteDatabase } from "./database.ts";
import { admittedRows, checkName, EVENTS } from "./protection.ts";
import { missingKeepers } from "./tokens.ts";

/**
 * All protected tables of the database. With `table`, only that one, or none if it is not
 * protected.
 */
export function protectedTables(
  database: SqliteDatabase,
  options: InspectOptions = {},
): ProtectedTable[] {
  checkOptionNames("protectedTables()", options, INSPECT_OPTIONS);
  checkDatabase(database);
  const { table } = options;
  const wanted = table === undefined ? undefined : checkName(table).toLowerCase();
  const found = database
    .prepare(
      `SELECT json_group_array(json_array(tbl_name, sql)) FROM
         (SELECT tbl_name, sql FROM sqlite_schema WHERE type = 'trigger' AND name LIKE 'tenure_guard:%' ORDER BY tbl_name, name)`,
    )
    .get();
  const triggers = new Map<string, string[]>();
  for (const [name, sql] of JSON.parse(String(readFirst(found))) as [string, string][]) {
    if (wanted === undefined || name.toLowerCase() === wanted)
      triggers.set(name, [...(triggers.get(name) ?? []), sql]);
  }
  return [...triggers].map(([name, texts]) => inspectTable(database, name, texts));
}

const CONDITION = /FROM (\w+)_admitted a JOIN[\s\S]*?WHERE a\.resource = '((?:[^']|'')*)' AND/;

function inspectTable(
  database: SqliteDatabase,
  table: string,
  triggers: readonly string[],
): ProtectedTable {
  const [, guard = "", quoted = ""] =
    triggers.map((sql) => CONDITION.exec(sql)).find((match) => match !== null) ?? [];
  const resource = quoted.replaceAll("''", "'");
  const known = { table, resource, guard };
  if (guard === "") {
    return {
      ...known,
      fault: "its triggers are not those that were installed. Remove and install",
    };
  }
  const refusal = `WHEN NOT EXISTS (${admittedRows(guard, resource)})\n  BEGIN SELECT RAISE(ABORT, `;
  const missing = EVENTS.filter(
    (event) =>
      !triggers.some((sql) => sql.includes(` BEFORE ${event} ON `) && sql.includes(refusal)),
  );
  if (missing.length > 0) {
    const events = missing.join(", ");
    return {
      ...known,
      fault: `nothing refuses ${events}. Remove the protection and install it again`,
    };
  }
  return { ...known, fault: findGuardFault(database, guard, resource) };
}

function findGuardFault(
  database: SqliteDatabase,
  guard: string,
  resource: string,
): string | undefined {
  const parts = database
    .prepare("SELECT count(*) FROM sqlite_schema WHERE name IN (?, ?, ?)")
    .get(guard, `${guard}_admitted`, `${guard}_admit`);
  if (Number(readFirst(parts)) !== 3) {
    return `parts of the guard are missing: the tables ${guard} and ${guard}_admitted, or the trigger ${guard}_admit. Remove the protection and install it again`;
  }
  const missing = missingKeepers(database, guard);
  if (missing.length > 0) {
    return `the highest tokens can be lowered: these triggers are missing or changed: ${missing.join(", ")}. Drop those that are there, then open a guard or install a protection, which creates them`;
  }
  const left = database.prepare(`SELECT 1 FROM ${guard}_admitted WHERE resource = ?`).get(resource);
  if (left === undefined) return undefined;
  return `a row is left in the admission table, and every write is admitted. Run DELETE FROM ${guard}_admitted`;
}
