// Lists the protected tables and checks that their protection is intact. The owner of a table can
// disable, change or replace the trigger, and a new partition has none.

import { checkOptionNames } from "../../core/options.ts";
import {
  INSPECT_OPTIONS,
  type InspectOptions,
  type ProtectedTable,
} from "../shared/protected-table.ts";
import { type Connection, type PostgresTarget, toConnection } from "./connection.ts";
import { admitSource, PROTECTION_FUNCTION, protectionSource } from "./functions.ts";
import { checkTable, literal } from "./sql.ts";
import { explainErrors } from "./tables.ts";

/**
 * All protected tables of the database. With `table`, only that one, or none if it is not
 * protected. Any role may call it.
 */
export async function protectedTables(
  target: PostgresTarget,
  options: InspectOptions = {},
): Promise<ProtectedTable[]> {
  checkOptionNames("protectedTables()", options, INSPECT_OPTIONS);
  const connection = toConnection(target);
  const { table } = options;
  if (table === undefined) return toProtectedTables(await connection.run(triggersWhere("true")));
  const named = `t.tgrelid = ${literal(checkTable(table))}::pg_catalog.regclass`;
  return explainErrors(table, async () =>
    toProtectedTables(await connection.run(triggersWhere(named))),
  );
}

/** The tgtype of our trigger: statement-level, before insert, update, delete and truncate. */
const EVERY_WRITE = "62";

const triggersWhere = (condition: string): string => `
SELECT pg_catalog.format('%I.%I', n.nspname, c.relname) AS name, pg_catalog.encode(t.tgargs, 'hex') AS args,
  t.tgenabled::text AS enabled, t.tgtype::text AS type, (t.tgqual IS NOT NULL)::text AS conditional,
  t.tgattr::text AS columns, pn.nspname AS guard, p.proname AS function, p.prosrc AS source, p.prosecdef::text AS definer,
  (WITH RECURSIVE family AS (
      SELECT c.oid AS id UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN family f ON i.inhparent = f.id)
    SELECT pg_catalog.string_agg(pg_catalog.format('%I.%I', mn.nspname, m.relname), ', ' ORDER BY m.relname)
    FROM family f JOIN pg_catalog.pg_class m ON m.oid = f.id JOIN pg_catalog.pg_namespace mn ON mn.oid = m.relnamespace
    WHERE NOT EXISTS (SELECT FROM pg_catalog.pg_trigger mt WHERE mt.tgrelid = m.oid AND mt.tgname = 'tenure_guard')
  ) AS bare,
  (SELECT a.prosrc FROM pg_catalog.pg_proc a WHERE a.pronamespace = pn.oid AND a.proname = 'admit' AND a.pronargs = 3) AS admit,
  (SELECT pg_catalog.string_agg(DISTINCT coalesce(pg_catalog.quote_ident(r.rolname), 'PUBLIC'), ', ')
    FROM pg_catalog.pg_class s
    CROSS JOIN LATERAL (SELECT s.relacl AS acl UNION ALL SELECT at.attacl FROM pg_catalog.pg_attribute at WHERE at.attrelid = s.oid) g
    CROSS JOIN LATERAL pg_catalog.aclexplode(g.acl) e LEFT JOIN pg_catalog.pg_roles r ON r.oid = e.grantee
    WHERE s.relnamespace = pn.oid AND s.relname = 'secret' AND e.grantee <> s.relowner
  ) AS readers,
  EXISTS (SELECT FROM pg_catalog.pg_class s WHERE s.relnamespace = pn.oid AND s.relname = 'secret')::text AS secret,
  (SELECT pg_catalog.count(*) FROM pg_catalog.pg_trigger k JOIN pg_catalog.pg_class h ON h.oid = k.tgrelid
    WHERE h.relnamespace = pn.oid AND h.relname = 'highest' AND k.tgenabled IN ('O', 'A')
      AND k.tgname IN ('keep_highest', 'keep_highest_truncated'))::text AS keepers
FROM pg_catalog.pg_trigger t
JOIN pg_catalog.pg_class c ON c.oid = t.tgrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
JOIN pg_catalog.pg_proc p ON p.oid = t.tgfoid JOIN pg_catalog.pg_namespace pn ON pn.oid = p.pronamespace
WHERE t.tgname = 'tenure_guard' AND NOT t.tgisinternal AND ${condition}
ORDER BY n.nspname, c.relname`;

type Row = Awaited<ReturnType<Connection["run"]>>[number];

function toProtectedTables(rows: readonly Row[]): ProtectedTable[] {
  return rows.map((row) => ({
    table: String(row.name),
    // PostgreSQL ends each argument of a trigger with a zero byte.
    resource: Buffer.from(String(row.args), "hex").toString("utf8").split("\0", 1)[0] ?? "",
    guard: String(row.guard),
    fault: findFault(row),
  }));
}

function findFault(row: Row): string | undefined {
  const { name, guard } = row;
  if (row.enabled === "D") {
    return `its trigger is disabled, and every write passes. Run ALTER TABLE ${name} ENABLE TRIGGER tenure_guard`;
  }
  if (row.enabled === "R") {
    return `its trigger fires in replication only, and ordinary writes pass. Run ALTER TABLE ${name} ENABLE TRIGGER tenure_guard`;
  }
  const firesAlways =
    row.type === EVERY_WRITE && row.conditional === "false" && String(row.columns) === "";
  if (!firesAlways || row.function !== PROTECTION_FUNCTION) {
    return "its trigger is not the one that was installed: some writes may pass. Remove it and install it again";
  }
  const changed =
    row.source !== protectionSource(String(guard)) || row.definer !== "true"
      ? PROTECTION_FUNCTION
      : row.admit !== admitSource(String(guard))
        ? "admit"
        : undefined;
  if (changed !== undefined) {
    return `the function ${guard}.${changed}() was changed, or is of another version of Tenure. Run guardSql() again`;
  }
  if (row.secret !== "true") {
    return `the table ${guard}.secret is missing, and every write fails. Run guardSql() again`;
  }
  if (row.readers !== null) {
    return `${row.readers} may read ${guard}.secret and forge admissions. Run DELETE FROM ${guard}.secret, then guardSql() again`;
  }
  if (row.keepers !== "2") {
    return `the highest tokens can be lowered: a trigger of ${guard}.highest is missing or disabled. Run ALTER TABLE ${guard}.highest ENABLE TRIGGER ALL, then guardSql() again`;
  }
  if (row.bare !== null) return `these partitions or children are not protected: ${row.bare}`;
  return undefined;
}
