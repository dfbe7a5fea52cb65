// Goal: guardSql() upgrades a guard of version 0.1.0 in place and keeps its tokens, rights and
// protected tables. Method: a real server; the original SQL of that version creates the old guard.
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import {
  guardSql,
  protectedTables,
  protectSql,
  type TokenSource,
} from "../../../src/guards/postgres/index.ts";
import { startPostgres } from "../../servers/postgres.ts";
import { useServer } from "../../servers/use-server.ts";
import { type Ledger, useLedgers } from "../../support/guards/postgres-guard-harness.ts";

const postgres = useServer(startPostgres);
const newLedger = useLedgers(postgres);
const OLD = readFileSync(
  new URL("../../support/guards/postgres-guard-0.1.0.sql", import.meta.url),
  "utf8",
);

const source = (token: bigint, resource = "ledger"): TokenSource => ({ resource, token });

interface Old {
  readonly ledger: Ledger;
  /** The owner of the guard and the table. */
  readonly owner: string;
  /** A role that may call admit() and insert into the table. */
  readonly writer: string;
  toUrl(role: string): string;
}

/** A guard of version 0.1.0 with a protected table and the highest token 5. */
async function newOld(): Promise<Old> {
  const ledger = await newLedger();
  const { schema, table } = ledger;
  const { sql, url } = postgres();
  const [owner, writer] = [`owner_${schema}`, `writer_${schema}`];
  await sql(`CREATE ROLE ${owner} LOGIN; CREATE ROLE ${writer} LOGIN;
    GRANT CREATE ON DATABASE ${new URL(url).pathname.slice(1)} TO ${owner};
    ALTER TABLE ${table} OWNER TO ${owner}; GRANT INSERT ON ${table} TO ${writer}`);
  const old = OLD.replaceAll("{schema}", schema);
  await sql(`SET ROLE ${owner}; ${old}; ${protectSql(table, { resource: "ledger", prefix: schema })}
    SELECT ${schema}.admit('ledger', 5);
    GRANT USAGE ON SCHEMA ${schema} TO ${writer}; GRANT SELECT ON ${schema}.highest TO ${writer};
    GRANT EXECUTE ON FUNCTION ${schema}.admit(text, numeric, integer) TO ${writer}`);
  const toUrl = (role: string): string => Object.assign(new URL(url), { username: role }).href;
  return { ledger, owner, writer, toUrl };
}

async function fault(ledger: Ledger): Promise<string | undefined> {
  const [found] = await protectedTables(ledger.pool(), { table: ledger.table });
  return found?.fault;
}

/** Checks the guarantees of the new version for a role that got its rights before the upgrade. */
async function expectUpgraded({ ledger, writer, toUrl }: Old): Promise<void> {
  const { schema, table } = ledger;
  const { guard, append } = ledger.guard("pg", { createSchema: false }, toUrl(writer));
  await expect(guard.advance(source(4n))).rejects.toMatchObject({ offered: 4n, highest: 5n });
  await guard.transaction(source(5n), (tx) => append(tx, "ledger", "admitted"));
  await guard.transaction(source(6n), (tx) => append(tx, "ledger", "next term"));
  const forge = `BEGIN; SELECT set_config('tenure.admitted', pg_current_xact_id() || ' {"ledger": "6"}', true);
    INSERT INTO ${table} (text) VALUES ('forged'); COMMIT`;
  await expect(ledger.pool(toUrl(writer)).query(forge)).rejects.toMatchObject({ code: "TN002" });
  expect(await ledger.written()).toEqual(["admitted", "next term"]);
  expect(await postgres().sql(`SELECT token FROM ${schema}.highest`)).toBe("6");
}

describe("a guard of version 0.1.0", () => {
  test.each(["its owner", "a superuser"])("is upgraded in place by %s", async (who) => {
    const old = await newOld();
    const { schema } = old.ledger;
    const { sql } = postgres();
    expect(await fault(old.ledger)).toContain("Run guardSql() again");
    const as = who === "its owner" ? `SET ROLE ${old.owner};` : "";
    await sql(`${as} ${guardSql({ prefix: schema })}`);
    await sql(`${as} ${guardSql({ prefix: schema })}`);
    expect(await fault(old.ledger)).toBeUndefined();
    await expectUpgraded(old);
  });

  test("is upgraded by the first guard that is opened as its owner", async () => {
    const old = await newOld();
    const { guard } = old.ledger.guard("postgres", {}, old.toUrl(old.owner));
    expect(await guard.highest("ledger")).toBe(5n);
    await expectUpgraded(old);
  });

  test("still works for a role that may not upgrade it", async () => {
    const old = await newOld();
    const { guard, append } = old.ledger.guard("pg", {}, old.toUrl(old.writer));
    await expect(guard.advance(source(4n))).rejects.toMatchObject({ code: "STALE_TOKEN" });
    await guard.transaction(source(6n), (tx) => append(tx, "ledger", "admitted"));
    expect(await old.ledger.written()).toEqual(["admitted"]);
    expect(await fault(old.ledger)).toContain("another version of Tenure");
  });

  test("S2: a writer that was admitted before the upgrade still blocks an advance after it", async () => {
    const { ledger } = await newOld();
    const { schema, table } = ledger;
    const client = await ledger.pool().connect();
    await client.query(`BEGIN; SELECT ${schema}.admit('ledger', 5)`);
    await postgres().sql(guardSql({ prefix: schema }));
    const { guard } = ledger.guard("pg", { waitMs: 300 });
    await expect(guard.advance(source(6n))).rejects.toMatchObject({ code: "GUARD_UNAVAILABLE" });
    // Its admission has no signature, so it must be admitted again.
    const unsigned = client.query(`INSERT INTO ${table} (text) VALUES ('unsigned')`);
    await expect(unsigned).rejects.toMatchObject({ code: "TN002" });
    await client.query("ROLLBACK");
    client.release();
    await guard.advance(source(6n));
  });
});
