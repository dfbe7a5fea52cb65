// Goal: the PostgreSQL guard works with a pooler in transaction mode, where the transactions of one
// client run on different server connections. Method: a real PgBouncer; the settings of one
// transaction must not reach the next one.
import { expect, test } from "vitest";
import { protectTable, type TokenSource } from "../../../src/guards/postgres/index.ts";
import { startPgBouncer } from "../../servers/pgbouncer.ts";
import { startPostgres } from "../../servers/postgres.ts";
import { useServer } from "../../servers/use-server.ts";
import { useLedgers } from "../../support/guards/postgres-guard-harness.ts";

const postgres = useServer(startPostgres, { settings: { max_connections: "100" } });
const pooler = useServer(() => startPgBouncer(postgres()));
const newLedger = useLedgers(postgres);

const source = (token: bigint): TokenSource => ({ resource: "ledger", token });

test("S2: with a pooler, admissions, idle limits and locks end with their transaction", async () => {
  const ledger = await newLedger();
  const { schema, table } = ledger;
  await protectTable(ledger.pool(), table, { resource: "ledger", prefix: schema });
  const { guard, append } = ledger.guard("pg", { waitMs: 2_000 }, pooler().url);
  await guard.advance(source(1n));
  const texts = Array.from({ length: 40 }, (_, i) => `${i}`);
  const write = (text: string) => guard.transaction(source(1n), (tx) => append(tx, "ledger", text));
  await Promise.all(texts.map(write));
  expect((await ledger.written()).sort()).toEqual([...texts].sort());
  const pool = ledger.pool(pooler().url);
  for (let turn = 0; turn < 8; turn += 1) {
    const bare = pool.query(`INSERT INTO ${table} (text) VALUES ('bare')`);
    // The trigger of the protected table rejects a write without an admission of its transaction.
    await expect(bare).rejects.toMatchObject({ code: "TN002" });
    const { rows } = await pool.query("SHOW idle_in_transaction_session_timeout");
    expect(rows).toEqual([{ idle_in_transaction_session_timeout: "0" }]);
  }
  await guard.transaction(source(1n), async () => {
    const advancing = ledger.guard("pg", { waitMs: 100 }, pooler().url).guard.advance(source(2n));
    await expect(advancing).rejects.toThrow(/backend pid \d+ \(idle in transaction for/);
  });
  await guard.advance(source(2n));
  await expect(write("late")).rejects.toMatchObject({ code: "STALE_TOKEN" });
});
