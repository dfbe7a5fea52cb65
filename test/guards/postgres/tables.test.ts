// Goal: a protected table rejects every write without a current token, whatever its path. Method: a
// real server; psql, a pool without a transaction and both libraries write; the rows are read back
// through psql.
import { describe, expect, test } from "vitest";
import {
  guardSql,
  protectSql,
  protectTable,
  removeGuardSql,
  type TokenSource,
  unprotectSql,
  unprotectTable,
} from "../../../src/guards/postgres/index.ts";
import { startPostgres } from "../../servers/postgres.ts";
import { useServer } from "../../servers/use-server.ts";
import { type Ledger, useLedgers } from "../../support/guards/postgres-guard-harness.ts";

const postgres = useServer(startPostgres);
const newLedger = useLedgers(postgres);

/** A table with one row in it, protected for "ledger". */
async function protectedLedger(): Promise<Ledger> {
  const ledger = await newLedger();
  const { schema, table } = ledger;
  await postgres().sql(`INSERT INTO ${table} (text) VALUES ('before')`);
  await protectTable(ledger.pool(), table, { resource: "ledger", prefix: schema });
  return ledger;
}

const source = (token: bigint, resource = "ledger"): TokenSource => ({ resource, token });
const REFUSED = 'takes writes only from the holder of "ledger"';

describe("a protected table", () => {
  test("S2: rejects every kind of write from psql, and can be read", async () => {
    const { schema, table } = await protectedLedger();
    const { sql } = postgres();
    for (const text of [
      `INSERT INTO ${table} (text) VALUES ('bare')`,
      `UPDATE ${table} SET text = 'bare'`,
      `UPDATE ${table} SET text = 'no row' WHERE false`,
      `DELETE FROM ${table}`,
      `TRUNCATE ${table}`,
      `COPY ${table} (text) FROM PROGRAM 'echo bare'`,
      `WITH gone AS (DELETE FROM ${table} RETURNING *) SELECT count(*) FROM gone`,
      `BEGIN; SELECT ${schema}.admit('another', 9); INSERT INTO ${table} (text) VALUES ('bare')`,
    ]) {
      await expect(sql(text), text).rejects.toThrow(REFUSED);
    }
    expect(await sql(`SELECT text FROM ${table}`)).toBe("before");
  });

  test("S2: accepts writes after admit() in the same transaction, from psql and from the guard", async () => {
    const ledger = await protectedLedger();
    const { schema, table } = ledger;
    const { sql } = postgres();
    await sql(
      `BEGIN; SELECT ${schema}.admit('another', 1); SELECT ${schema}.admit('ledger', 4);
       INSERT INTO ${table} (text) VALUES ('psql'); UPDATE ${table} SET resource = 'x'; COMMIT`,
    );
    for (const library of ["pg", "postgres"] as const) {
      const { guard, append } = ledger.guard(library);
      await guard.transaction(source(4n), (tx) => append(tx, "x", library));
      const stale = guard.transaction(source(3n), (tx) => append(tx, "x", "late"));
      await expect(stale).rejects.toMatchObject({ offered: 3n, highest: 4n });
      const wrong = guard.transaction(source(9n, "another"), (tx) => append(tx, "x", "wrong"));
      await expect(wrong).rejects.toMatchObject({ code: "INVALID_ARGUMENT" });
    }
    expect(await ledger.written()).toEqual(["before", "psql", "pg", "postgres"]);
  });

  test("S2: an admission does not apply to the next transaction of the same connection", async () => {
    const ledger = await protectedLedger();
    const { schema, table } = ledger;
    const client = await ledger.pool().connect();
    const insert = `INSERT INTO ${table} (text) VALUES ('bare')`;
    await client.query(`BEGIN; SELECT ${schema}.admit('ledger', 1); COMMIT`);
    await expect(client.query(insert)).rejects.toThrow(REFUSED);
    await client.query(`SELECT ${schema}.admit('ledger', 1)`);
    await expect(client.query(insert)).rejects.toThrow(REFUSED);
    // Kept for the whole session by mistake: the transaction id differs.
    const setting = `tenure.admitted_${schema}`;
    await client.query(`BEGIN; SELECT ${schema}.admit('ledger', 1);
      SELECT set_config('${setting}', current_setting('${setting}'), false); COMMIT`);
    await expect(client.query(insert)).rejects.toThrow(REFUSED);
    await client.query(`SET ${setting} = '{"ledger": "1"}'`);
    await expect(client.query(insert)).rejects.toThrow(REFUSED);
    client.release();
    expect(await ledger.written()).toEqual(["before"]);
  });

  test("S2: an admission that was rolled back to a savepoint is invalid", async () => {
    const ledger = await protectedLedger();
    const { schema, table } = ledger;
    const client = await ledger.pool().connect();
    await client.query(`BEGIN; SAVEPOINT a; SELECT ${schema}.admit('ledger', 1); ROLLBACK TO a`);
    const bare = client.query(`INSERT INTO ${table} (text) VALUES ('bare')`);
    await expect(bare).rejects.toThrow(REFUSED);
    await client.query("ROLLBACK");
    client.release();
    expect(await ledger.written()).toEqual(["before"]);
  });

  test("S2: partitions are protected, through their parent and by their own name", async () => {
    const ledger = await newLedger();
    const { schema } = ledger;
    const { sql } = postgres();
    const parent = `public.parts_${schema}`;
    await sql(
      `CREATE TABLE ${parent} (id int) PARTITION BY RANGE (id);
       CREATE TABLE ${parent}_1 PARTITION OF ${parent} FOR VALUES FROM (0) TO (100)`,
    );
    await protectTable(ledger.pool(), parent, { resource: "ledger", prefix: schema });
    await expect(sql(`INSERT INTO ${parent} VALUES (1)`)).rejects.toThrow(REFUSED);
    await expect(sql(`INSERT INTO ${parent}_1 VALUES (1)`)).rejects.toThrow(REFUSED);
    await sql(
      `BEGIN; SELECT ${schema}.admit('ledger', 1); INSERT INTO ${parent} VALUES (1); COMMIT`,
    );
    expect(await sql(`SELECT count(*) FROM ${parent}`)).toBe("1");
    await unprotectTable(ledger.pool(), parent, { prefix: schema });
    await sql(`INSERT INTO ${parent}_1 VALUES (2)`);
  });

  test("S2: a role without rights on the guard is rejected, and can write after admit()", async () => {
    const ledger = await protectedLedger();
    const { schema, table } = ledger;
    const { sql, url } = postgres();
    const role = `role_${schema}`;
    await sql(`CREATE ROLE ${role} LOGIN; GRANT INSERT, SELECT ON ${table} TO ${role}`);
    const as = new URL(url);
    as.username = role;
    const pool = ledger.pool(as.href);
    const insert = `INSERT INTO ${table} (text) VALUES ('role')`;
    await expect(pool.query(insert)).rejects.toThrow(REFUSED);
    await sql(guardSql({ prefix: schema, role }));
    await pool.query(`BEGIN; SELECT ${schema}.admit('ledger', 1); ${insert}; COMMIT`);
    expect(await ledger.written()).toEqual(["before", "role"]);
    await expect(pool.query(unprotectSql(table, { prefix: schema }))).rejects.toThrow(
      "permission denied",
    );
  });
});

describe("protectTable()", () => {
  test("can be undone by a call, by SQL, and by removing the guard", async () => {
    const ledger = await protectedLedger();
    const { schema, table } = ledger;
    const { sql } = postgres();
    const insert = `INSERT INTO ${table} (text) VALUES ('bare')`;
    await unprotectTable(ledger.sql(), table, { prefix: schema });
    await sql(insert);
    await sql(protectSql(table, { resource: 'it\'s \\ "odd"; --', prefix: schema }));
    await expect(sql(insert)).rejects.toThrow(`the holder of "it's \\ "odd"; --"`);
    await sql(unprotectSql(table, { prefix: schema }));
    await sql(insert);
    await sql(protectSql(table, { resource: "ledger", prefix: schema }));
    await sql(removeGuardSql({ prefix: schema }));
    await sql(insert);
    expect(await ledger.written()).toEqual(["before", "bare", "bare", "bare"]);
  });

  test("accepts a name with quotes and semicolons", async () => {
    const ledger = await newLedger();
    const { schema } = ledger;
    const { sql } = postgres();
    const table = `public."a""b; DROP TABLE ${schema}.highest; --"`;
    await sql(`CREATE TABLE ${table} (id int)`);
    await protectTable(ledger.sql(), table, { resource: "ledger", prefix: schema });
    await expect(sql(`INSERT INTO ${table} VALUES (1)`)).rejects.toThrow(REFUSED);
    await unprotectTable(ledger.pool(), table, { prefix: schema });
    await sql(`INSERT INTO ${table} VALUES (1)`);
    await sql(`DROP TABLE ${table}`);
  });

  test("rejects what cannot be protected with the reason, and changes nothing", async () => {
    const ledger = await protectedLedger();
    const { schema, table } = ledger;
    const { sql } = postgres();
    const pool = ledger.pool();
    const view = `public.view_${schema}`;
    await sql(`CREATE VIEW ${view} AS SELECT 1`);
    const options = { resource: "ledger", prefix: schema };
    for (const [name, reason] of [
      [table, "protected already"],
      ["public.nowhere", "there is no such table"],
      ["nowhere.settlement", "there is no such table"],
      [`a'; DROP TABLE ${table}; --`, "not a name"],
      [view, "only tables"],
      ["pg_catalog.pg_class", "only tables"],
      [`${schema}.highest`, "only tables"],
      ["", "Expected the name of a table"],
    ] as const) {
      await expect(protectTable(pool, name, options), name).rejects.toMatchObject({
        code: "INVALID_ARGUMENT",
        message: expect.stringContaining(reason),
      });
    }
    await expect(unprotectTable(pool, view, { prefix: schema })).rejects.toThrow(
      "it is not protected",
    );
    await expect(protectTable(pool, table, { resource: "" })).rejects.toThrow("resource name");
    expect(await ledger.written()).toEqual(["before"]);
  });
});
