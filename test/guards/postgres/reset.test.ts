// Goal: only the owner of a PostgreSQL guard can reset the highest token of one resource, and the
// triggers that forbid lowering it stay in force. Method: a real server, both client libraries, and
// psql for changes without the guard.
import pg from "pg";
import { describe, expect, test } from "vitest";
import {
  guardSql,
  protectedTables,
  protectTable,
  resetHighest,
} from "../../../src/guards/postgres/index.ts";
import { until } from "../../servers/ask.ts";
import { startPostgres } from "../../servers/postgres.ts";
import { useServer } from "../../servers/use-server.ts";
import { type Library, useLedgers } from "../../support/guards/postgres-guard-harness.ts";

const postgres = useServer(startPostgres);
const newLedger = useLedgers(postgres);

/** A token of a store that starts at the wall clock, and one of a store with a consensus log. */
const LARGE = 1_794_945_356_059_000n;
const SMALL = 42n;
const source = (token: bigint, resource = "ledger") => ({ resource, token });
const REFUSED = "never fall and are never deleted";

describe.each(["pg", "postgres"] as const satisfies Library[])("through %s", (library) => {
  test("S2: rejects a lower token, admits it after a reset, and then rejects tokens below that one", async () => {
    const ledger = await newLedger();
    const { schema, table } = ledger;
    const { guard, append } = ledger.guard(library);
    const target = library === "pg" ? ledger.pool() : ledger.sql();
    // Characters that could end a literal or the body of the statement.
    const resource = "it's $$ a \\ ledger";
    await guard.advance(source(LARGE, resource));
    await guard.advance(source(LARGE, "other"));
    await protectTable(target, table, { resource, prefix: schema });
    await expect(guard.advance(source(SMALL, resource))).rejects.toThrow("stale");
    expect(await resetHighest(target, resource, { highest: LARGE, prefix: schema })).toBe(true);
    expect(await guard.highest(resource)).toBeUndefined();
    await guard.transaction(source(SMALL, resource), (tx) => append(tx, resource, "new"));
    expect(await ledger.written()).toEqual(["new"]);
    await expect(guard.advance(source(SMALL - 1n, resource))).rejects.toThrow("stale");
    await expect(guard.advance(source(SMALL, "other"))).rejects.toThrow("stale");
    expect(await protectedTables(target, { table })).toMatchObject([{ fault: undefined }]);
  });
});

test("S2: after a reset the highest tokens still cannot be lowered, deleted or truncated by accident", async () => {
  const ledger = await newLedger();
  const { schema } = ledger;
  const { sql } = postgres();
  const { guard } = ledger.guard();
  for (const state of ["ENABLE", "ENABLE ALWAYS", "DISABLE"]) {
    await guard.advance(source(LARGE));
    await sql(`ALTER TABLE ${schema}.highest ${state} TRIGGER keep_highest`);
    expect(await resetHighest(ledger.pool(), "ledger", { highest: LARGE, prefix: schema })).toBe(
      true,
    );
    await guard.advance(source(SMALL));
    for (const text of ["UPDATE # SET token = 4", "DELETE FROM #", "TRUNCATE #"]) {
      await expect(sql(text.replace("#", `${schema}.highest`)), state).rejects.toThrow(REFUSED);
    }
    const enabled = await sql(
      `SELECT tgenabled FROM pg_trigger WHERE tgrelid = '${schema}.highest'::regclass AND tgname = 'keep_highest'`,
    );
    expect(enabled).toBe(state === "ENABLE ALWAYS" ? "A" : "O");
  }
});

test("a reset with an outdated token does nothing", async () => {
  const ledger = await newLedger();
  const { schema } = ledger;
  const { guard } = ledger.guard();
  await guard.advance(source(LARGE + 1n));
  expect(await resetHighest(ledger.pool(), "ledger", { highest: LARGE, prefix: schema })).toBe(
    false,
  );
  expect(await guard.highest("ledger")).toBe(LARGE + 1n);
  expect(await resetHighest(ledger.pool(), "nobody", { highest: LARGE, prefix: schema })).toBe(
    true,
  );
});

test("a role that may call admit(), even with all rights on the rows, cannot reset", async () => {
  const ledger = await newLedger();
  const { schema } = ledger;
  const { sql, url } = postgres();
  // Roles belong to the whole server, which other test files use, too.
  const role = `reset_writer_${schema}`;
  await sql(`CREATE ROLE ${role} LOGIN`);
  await sql(guardSql({ prefix: schema, role }));
  await sql(`GRANT ALL ON ${schema}.highest TO ${role}`);
  await ledger.guard().guard.advance(source(LARGE));
  const as = new URL(url);
  as.username = role;
  const pool = ledger.pool(as.href);
  await expect(
    resetHighest(pool, "ledger", { highest: LARGE, prefix: schema }),
  ).rejects.toMatchObject({
    code: "INVALID_ARGUMENT",
    message: expect.stringContaining("only the owner"),
  });
  await expect(pool.query(`DELETE FROM ${schema}.highest`)).rejects.toThrow(REFUSED);
  expect(await ledger.guard().guard.highest("ledger")).toBe(LARGE);
});

test("S2: a reset waits for the open transactions of the resource, and changes nothing when it gives up", async () => {
  const ledger = await newLedger();
  const { schema } = ledger;
  const { guard, append } = ledger.guard();
  await guard.advance(source(LARGE));
  const reset = (waitMs: number): Promise<boolean> =>
    resetHighest(ledger.pool(), "ledger", { highest: LARGE, prefix: schema, waitMs });
  let patient: Promise<boolean> | undefined;
  await guard.transaction(source(LARGE), async (tx) => {
    await expect(reset(50)).rejects.toMatchObject({ code: "GUARD_UNAVAILABLE", applied: "no" });
    expect(await guard.highest("ledger")).toBe(LARGE);
    await append(tx, "ledger", "in time");
    patient = reset(10_000);
    await waiting("advisory");
  });
  expect(await patient).toBe(true);
  expect(await ledger.written()).toEqual(["in time"]);
});

test("an advance and a concurrent reset do not deadlock", async () => {
  const ledger = await newLedger();
  const { schema } = ledger;
  const { guard } = ledger.guard();
  await guard.advance(source(LARGE));
  // Locks the table, so that the reset has locked the gate and waits for the table when the advance
  // arrives.
  const blocker = new pg.Client({ connectionString: postgres().url });
  await blocker.connect();
  await blocker.query(`BEGIN; LOCK TABLE ${schema}.highest IN ROW EXCLUSIVE MODE`);
  const reset = resetHighest(ledger.pool(), "ledger", { highest: LARGE, prefix: schema });
  await waiting("relation");
  const advanced = guard.advance(source(LARGE + 1n));
  await waiting("advisory");
  await blocker.query("COMMIT");
  await blocker.end();
  expect(await reset).toBe(true);
  await advanced;
  expect(await guard.highest("ledger")).toBe(LARGE + 1n);
});

test("a schema without a guard is rejected with a reason", async () => {
  const pool = (await newLedger()).pool();
  const reset = resetHighest(pool, "ledger", { highest: 1n, prefix: "no_guard_here" });
  await expect(reset).rejects.toThrow("not in this database");
});

/** Resolves when a session of this database waits for a lock of this kind. */
async function waiting(kind: "advisory" | "relation"): Promise<void> {
  const count = `SELECT count(*) FROM pg_stat_activity
    WHERE datname = current_database() AND wait_event_type = 'Lock' AND wait_event = '${kind}'`;
  const isWaiting = async (): Promise<boolean> => (await postgres().sql(count)) !== "0";
  await until(`a session waits for a lock (${kind})`, isWaiting, 10_000);
}
