// Goal: the PostgreSQL guard can be used from SQL, by other languages and by people with a console:
// admit(), rights, creation, removal, and errors that toTenureError() translates. Method: a real
// server, mostly through psql.
import pg from "pg";
import { describe, expect, test } from "vitest";
import { ClosedError, StaleTokenError } from "../../../src/core/errors.ts";
import {
  guardSql,
  postgresGuard,
  protectTable,
  removeGuardSql,
  type TokenSource,
  toTenureError,
} from "../../../src/guards/postgres/index.ts";
import { startPostgres } from "../../servers/postgres.ts";
import { useServer } from "../../servers/use-server.ts";
import { useLedgers } from "../../support/guards/postgres-guard-harness.ts";

const postgres = useServer(startPostgres);
const newLedger = useLedgers(postgres);

const source = (token: bigint, resource = "ledger"): TokenSource => ({ resource, token });

describe("the guard in SQL", () => {
  async function newSchema(): Promise<string> {
    const { schema } = await newLedger();
    await postgres().sql(guardSql({ prefix: schema }));
    return schema;
  }

  test("S2: admit() admits a current token and rejects a stale one with its own SQLSTATE and both tokens", async () => {
    const schema = await newSchema();
    const { sql } = postgres();
    const large = 2n ** 127n - 1n;
    expect(await sql(`SELECT ${schema}.admit('settlement', 4720)`)).toBe("4720");
    expect(await sql(`SELECT ${schema}.admit('settlement', 4720)`)).toBe("4720");
    const late = sql(`SELECT ${schema}.admit('settlement', 4719)`);
    await expect(late).rejects.toThrow('Token 4719 for "settlement" is stale: 4720 has been seen');
    expect(await sql(`SELECT ${schema}.admit('large', ${large})`)).toBe(String(large));
    await expect(sql(`SELECT ${schema}.admit('large', ${large - 1n})`)).rejects.toThrow("stale");
    const pool = new pg.Pool({ connectionString: postgres().url });
    const query = pool.query(`SELECT ${schema}.admit($1, $2)`, ["settlement", "4719"]);
    await expect(query).rejects.toMatchObject({ code: "TN001" });
    await pool.end();
  });

  test.each(["1.5", "0", "-1", "'NaN'", `${2n ** 127n}`, "NULL", "1e-3", "'x'", "1::float8"])(
    "a token of %s is rejected, and nothing is stored",
    async (token) => {
      const schema = await newSchema();
      await expect(postgres().sql(`SELECT ${schema}.admit('ledger', ${token})`)).rejects.toThrow();
      expect(await postgres().sql(`SELECT count(*) FROM ${schema}.highest`)).toBe("0");
    },
  );

  test("S2: the highest tokens cannot be lowered, deleted or truncated by hand", async () => {
    const schema = await newSchema();
    const { sql } = postgres();
    await sql(`SELECT ${schema}.admit('ledger', 5)`);
    for (const text of [
      `UPDATE ${schema}.highest SET token = 4`,
      `UPDATE ${schema}.highest SET resource = 'other'`,
      `DELETE FROM ${schema}.highest`,
      `TRUNCATE ${schema}.highest`,
    ]) {
      await expect(sql(text)).rejects.toThrow("never fall and are never deleted");
    }
    expect(await sql(`SELECT resource, token FROM ${schema}.highest`)).toBe("ledger|5");
  });

  test("a role that may only call admit() can write under the guard and cannot change its tokens", async () => {
    const ledger = await newLedger();
    const { sql, url } = postgres();
    const role = `writer "${ledger.schema}"`;
    const name = `"${role.replaceAll('"', '""')}"`;
    await sql(`CREATE ROLE ${name} LOGIN; GRANT INSERT, SELECT ON ${ledger.table} TO ${name}`);
    await sql(guardSql({ prefix: ledger.schema }));
    const as = new URL(url);
    as.username = encodeURIComponent(role);
    const { guard, append } = ledger.guard("pg", {}, as.href);
    const refused = guard.advance(source(1n));
    await expect(refused).rejects.toThrow(/INVALID_ARGUMENT|denied a permission/);
    await sql(guardSql({ prefix: ledger.schema, role }));
    await guard.transaction(source(3n), (tx) => append(tx, "ledger", "allowed"));
    expect(await guard.highest("ledger")).toBe(3n);
    const pool = ledger.pool(as.href);
    for (const act of ["UPDATE {}.highest SET token = 9", "DELETE FROM {}.highest"]) {
      const byHand = pool.query(act.replace("{}", ledger.schema));
      await expect(byHand).rejects.toThrow("permission denied");
    }
    expect(await ledger.written()).toEqual(["allowed"]);
  });

  test("S2: objects of the same name in the search_path do not affect the functions", async () => {
    const schema = await newSchema();
    const { sql } = postgres();
    await sql(`SELECT ${schema}.admit('ledger', 5)`);
    await sql(`CREATE SCHEMA evil_${schema}`);
    await sql(
      `CREATE FUNCTION evil_${schema}.trunc(numeric) RETURNS numeric LANGUAGE sql AS 'SELECT 0::numeric'`,
    );
    await sql(`CREATE TABLE evil_${schema}.highest (resource text, token numeric)`);
    const astray = `SET search_path = evil_${schema}, pg_catalog; SELECT ${schema}.admit('ledger', 4)`;
    await expect(sql(astray)).rejects.toThrow("is stale: 5 has been seen");
  });

  test("the SQL can be run repeatedly and concurrently, and the guard can be removed", async () => {
    const ledger = await newLedger();
    const { sql } = postgres();
    const [one, two] = [ledger.guard("pg"), ledger.guard("postgres")];
    await Promise.all([one.guard.advance(source(1n)), two.guard.advance(source(1n))]);
    await sql(guardSql({ prefix: ledger.schema }));
    expect(await one.guard.highest("ledger")).toBe(1n);
    await sql(removeGuardSql({ prefix: ledger.schema }));
    const without = ledger.guard("pg", { createSchema: false });
    await expect(without.guard.advance(source(1n))).rejects.toThrow("Run guardSql(");
  });
});

describe("toTenureError()", () => {
  async function catchError(act: Promise<unknown>): Promise<unknown> {
    return act.then(
      () => expect.unreachable(),
      (error: unknown) => error,
    );
  }

  test.each(["pg", "postgres"] as const)(
    "S2: translates the stale token of the user's own transaction, through %s",
    async (library) => {
      const ledger = await newLedger();
      const { schema } = ledger;
      await postgres().sql(guardSql({ prefix: schema }));
      const [pool, sql] = [ledger.pool(), ledger.sql()];
      const run = (text: string): Promise<unknown> =>
        library === "pg" ? pool.query(text) : sql.begin((tx) => tx.unsafe(text));
      const resource = `it's "odd" is stale: 1`;
      const admit = (token: bigint): Promise<unknown> =>
        run(`SELECT ${schema}.admit($$${resource}$$, ${token})`);
      await admit(2n ** 100n);
      const error = await catchError(admit(7n));
      expect(error).toMatchObject({ code: "TN001" });
      const translated = toTenureError(error);
      expect(translated).toBeInstanceOf(StaleTokenError);
      expect(translated).toMatchObject({ resource, offered: 7n, highest: 2n ** 100n });
      // As an ORM wraps it.
      const wrapped = new Error("Failed query", { cause: new Error("driver", { cause: error }) });
      expect(toTenureError(wrapped)).toMatchObject({ code: "STALE_TOKEN", offered: 7n });
    },
  );

  test("translates a write without admit() to a protected table", async () => {
    const ledger = await newLedger();
    const { schema, table } = ledger;
    const pool = ledger.pool();
    await protectTable(pool, table, { resource: "ledger", prefix: schema });
    const error = await catchError(pool.query(`INSERT INTO ${table} (text) VALUES ('bare')`));
    expect(toTenureError(error)).toMatchObject({
      code: "INVALID_ARGUMENT",
      message: expect.stringContaining('only from the holder of "ledger"'),
      cause: { code: "TN002" },
    });
  });

  test("translates an admit() that waited too long for an earlier term", async () => {
    const ledger = await newLedger();
    const { schema } = ledger;
    await postgres().sql(guardSql({ prefix: schema }));
    const pool = ledger.pool();
    const client = await pool.connect();
    await client.query(`BEGIN; SELECT ${schema}.admit('ledger', 1)`);
    const error = await catchError(pool.query(`SELECT ${schema}.admit('ledger', 2, 50)`));
    await client.query("ROLLBACK");
    client.release();
    expect(toTenureError(error)).toMatchObject({
      code: "GUARD_UNAVAILABLE",
      applied: "no",
      resource: "ledger",
      message: expect.stringContaining("pg_terminate_backend"),
    });
  });

  test("returns every other error as it is", async () => {
    const ledger = await newLedger();
    const pool = ledger.pool();
    const foreign = (state: string, text: string): Promise<unknown> =>
      pool.query(`DO $$ BEGIN RAISE EXCEPTION '${text}' USING ERRCODE = '${state}'; END $$`);
    for (const act of [
      () => pool.query("SELECT 1/0"),
      () => foreign("TN001", "Token of another program"),
      () => foreign("55P03", "another lock"),
    ]) {
      const error = await catchError(act());
      expect(toTenureError(error)).toBe(error);
    }
    const closed = ClosedError.from({ what: "The pool" });
    for (const other of [undefined, null, "TN001", { code: "TN001" }, new Error("x"), closed])
      expect(toTenureError(other)).toBe(other);
  });
});

describe("invalid input", () => {
  test("is rejected with advice before the database is used", async () => {
    const pool = new pg.Pool({ connectionString: "postgres://127.0.0.1:1/none" });
    expect(() => postgresGuard({} as pg.Pool)).toThrow("needs a Pool or a connected Client");
    expect(() => postgresGuard(undefined as unknown as pg.Pool)).toThrow("needs a Pool");
    expect(() => postgresGuard(pool, { prefix: `x"; DROP TABLE y` })).toThrow(
      "`prefix`, the PostgreSQL schema, must be",
    );
    expect(() => postgresGuard(pool, { isolation: "none" as "serializable" })).toThrow("isolation");
    expect(() => postgresGuard(pool, { idleMs: 0 })).toThrow("`idleMs` must be");
    expect(() => postgresGuard(pool, { waitMs: 1.5 })).toThrow("`waitMs` must be");
    expect(() => postgresGuard(pool, { resource: "" })).toThrow("resource name");
    expect(() => guardSql({ role: "" })).toThrow("`role` must be");
    const guard = postgresGuard(pool);
    const noFunction = guard.transaction(source(1n), "insert" as unknown as () => void);
    await expect(noFunction).rejects.toThrow("a function that does the write");
    const noLease = guard.transaction(undefined as unknown as TokenSource, () => undefined);
    await expect(noLease).rejects.toThrow("got undefined");
  });
});
