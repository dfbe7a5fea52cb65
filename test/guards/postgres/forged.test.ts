// Goal: only admit() allows writes to a protected table, and a role that may write to it cannot
// admit itself. Method: a real server; an attacker with its own login and only INSERT on the table
// tries to forge the setting that carries admissions.
import type pg from "pg";
import { describe, expect, test } from "vitest";
import { guardSql, protectTable, type TokenSource } from "../../../src/guards/postgres/index.ts";
import { startPostgres } from "../../servers/postgres.ts";
import { useServer } from "../../servers/use-server.ts";
import { type Ledger, useLedgers } from "../../support/guards/postgres-guard-harness.ts";

const postgres = useServer(startPostgres);
const newLedger = useLedgers(postgres);

const source = (token: bigint, resource = "ledger"): TokenSource => ({ resource, token });

interface Attacker {
  readonly ledger: Ledger;
  readonly role: string;
  /** Runs statements in one transaction of the attacker. */
  run(...statements: string[]): Promise<pg.QueryResult>;
}

/**
 * A table protected for "ledger", whose highest token is 4720, and a role that may insert into it.
 */
async function newAttacker(): Promise<Attacker> {
  const ledger = await newLedger();
  const { schema, table } = ledger;
  const role = `mallory_${schema}`;
  await postgres().sql(`CREATE ROLE ${role} LOGIN; GRANT INSERT, SELECT ON ${table} TO ${role}`);
  await protectTable(ledger.pool(), table, { resource: "ledger", prefix: schema });
  await ledger.guard().guard.advance(source(4720n));
  const url = new URL(postgres().url);
  url.username = role;
  const pool = ledger.pool(url.href);
  const run = async (...statements: string[]): Promise<pg.QueryResult> => {
    const client = await pool.connect();
    try {
      await client.query("BEGIN");
      let answer: pg.QueryResult | undefined;
      for (const text of statements) answer = await client.query(text);
      await client.query("COMMIT");
      return answer as pg.QueryResult;
    } catch (error) {
      await client.query("ROLLBACK");
      throw error;
    } finally {
      client.release();
    }
  };
  return { ledger, role, run };
}

const insert = ({ table }: Ledger): string => `INSERT INTO ${table} (text) VALUES ('forged')`;
const set = (name: string, value: string): string => `SELECT set_config('${name}', ${value}, true)`;

describe("a role with only INSERT on a protected table", () => {
  test.each([
    ["the right token without a signature", `'{"ledger": "4720"}'`],
    ["the right token and an empty signature", `'{"ledger":"4720"} '`],
    ["a signature without the secret", `'{"ledger":"4720"} ' || encode(sha256('x'), 'hex')`],
    ["a lower token", `'{"ledger": "1"}'`],
    ["no JSON", `'ledger'`],
    ["nothing", "''"],
  ])("S2: cannot admit itself with %s, and does not learn the highest token", async (_, body) => {
    const { ledger, run } = await newAttacker();
    const value = `pg_current_xact_id() || ' ' || ${body}`;
    for (const name of ["tenure.admitted", `tenure.admitted_${ledger.schema}`]) {
      const forged = run(set(name, value), insert(ledger));
      await expect(forged).rejects.toMatchObject({ code: "TN002", detail: undefined });
      await expect(forged).rejects.not.toThrow("4720");
    }
    expect(await ledger.written()).toEqual([]);
  });

  test("can read neither the secret nor the highest tokens, and cannot call admit()", async () => {
    const { ledger, run } = await newAttacker();
    const { schema } = ledger;
    for (const text of [
      `SELECT * FROM ${schema}.secret`,
      `SELECT * FROM ${schema}.highest`,
      `SELECT ${schema}.admit('ledger', 4720)`,
    ]) {
      await expect(run(text), text).rejects.toThrow("permission denied");
    }
  });

  test("S2: cannot use a signed admission of another transaction", async () => {
    const { ledger, run } = await newAttacker();
    const { schema } = ledger;
    const name = `tenure.admitted_${schema}`;
    const signed = await postgres().sql(
      `BEGIN; SELECT ${schema}.admit('ledger', 4720); SELECT current_setting('${name}'); COMMIT`,
    );
    const admission = signed.split("\n").at(-1) ?? "";
    expect(admission).toMatch(/^\d+ \{"ledger":"4720"\} [0-9a-f]{64}$/);
    for (const value of [
      `'${admission}'`,
      `regexp_replace('${admission}', '^\\d+', pg_current_xact_id()::text)`,
    ]) {
      const forged = run(set(name, value), insert(ledger));
      await expect(forged).rejects.toMatchObject({ code: "TN002" });
    }
    expect(await ledger.written()).toEqual([]);
  });
});

describe("a role that may only connect", () => {
  test("can delay an advance with an advisory lock, and is named in the error", async () => {
    const { ledger, run } = await newAttacker();
    const { guard } = ledger.guard("pg", { waitMs: 300 });
    const lock = "SELECT pg_advisory_lock(hashtextextended($$tenure guard {schema} ledger$$, 0))";
    const held = await run(
      lock.replace("{schema}", ledger.schema),
      "SELECT pg_backend_pid()::int AS pid",
    );
    const advancing = guard.advance(source(4721n));
    await expect(advancing).rejects.toThrow(`backend pid ${held.rows[0].pid} (idle for`);
    await postgres().sql(`SELECT pg_terminate_backend(${held.rows[0].pid})`);
    await guard.advance(source(4721n));
  });
});

describe("a role that may call admit()", () => {
  test("S2: cannot have a forged admission signed together with its own", async () => {
    const { ledger, role, run } = await newAttacker();
    const { schema } = ledger;
    await postgres().sql(guardSql({ prefix: schema, role }));
    const forged = run(
      set(`tenure.admitted_${schema}`, `pg_current_xact_id() || ' {"ledger": "4720"} '`),
      `SELECT ${schema}.admit('another', 1)`,
      insert(ledger),
    );
    await expect(forged).rejects.toMatchObject({ code: "TN002" });
    const honest = [`SELECT ${schema}.admit('ledger', 4720)`, insert(ledger)];
    await run(`SELECT ${schema}.admit('another', 1)`, ...honest);
    expect(await ledger.written()).toEqual(["forged"]);
  });

  test("S2: cannot restore an admission that was rolled back to a savepoint", async () => {
    const { ledger } = await newAttacker();
    const { schema } = ledger;
    const name = `tenure.admitted_${schema}`;
    const client = await ledger.pool().connect();
    await client.query(`BEGIN; SAVEPOINT a; SELECT ${schema}.admit('ledger', 4720)`);
    const { rows } = await client.query(`SELECT current_setting('${name}') AS admission`);
    await client.query("ROLLBACK TO a");
    await ledger.guard().guard.advance(source(4721n));
    await client.query(set(name, `'${rows[0].admission}'`));
    await expect(client.query(insert(ledger))).rejects.toMatchObject({ code: "TN001" });
    await client.query("ROLLBACK");
    client.release();
    expect(await ledger.written()).toEqual([]);
  });
});

describe("the secret", () => {
  test("cannot be read by roles with default privileges on new tables", async () => {
    const { ledger, role, run } = await newAttacker();
    const schema = `${ledger.schema}_more`;
    await postgres().sql(
      `ALTER DEFAULT PRIVILEGES GRANT SELECT ON TABLES TO ${role}, PUBLIC; ${guardSql({ prefix: schema })};
       ALTER DEFAULT PRIVILEGES REVOKE SELECT ON TABLES FROM ${role}, PUBLIC; GRANT USAGE ON SCHEMA ${schema} TO ${role}`,
    );
    await expect(run(`SELECT * FROM ${schema}.secret`)).rejects.toThrow("permission denied");
  });

  test("differs between guards, and an admission of one is invalid for the tables of another", async () => {
    const { ledger } = await newAttacker();
    const other = await newLedger();
    await other.guard().guard.advance(source(1n));
    const { sql } = postgres();
    const readSecret = ({ schema }: Ledger) => sql(`SELECT value FROM ${schema}.secret`);
    expect(await readSecret(ledger)).not.toBe(await readSecret(other));
    const admitted = `BEGIN; SELECT ${other.schema}.admit('ledger', 4720);`;
    await expect(sql(`${admitted} ${insert(ledger)}; COMMIT`)).rejects.toThrow("takes writes only");
    // Both in one transaction.
    await sql(
      `${admitted} SELECT ${ledger.schema}.admit('ledger', 4720); SELECT ${other.schema}.admit('ledger', 4720);
       ${insert(ledger)}; COMMIT`,
    );
    expect(await ledger.written()).toEqual(["forged"]);
  });

  test("is kept when the SQL is run again", async () => {
    const { ledger } = await newAttacker();
    const { schema } = ledger;
    const { sql } = postgres();
    const before = await sql(`SELECT value FROM ${schema}.secret`);
    await sql(guardSql({ prefix: schema }));
    expect(await sql(`SELECT value FROM ${schema}.secret`)).toBe(before);
  });
});
