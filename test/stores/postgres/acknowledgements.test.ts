// Goal: a renewal that acknowledges a revocation is one statement, deletes the revocation's row,
// and cannot deadlock with the end of its session. Method: a real server, a pool that counts
// statements, and a second connection that holds a transaction open.
import pg from "pg";
import { expect, onTestFinished, test } from "vitest";
import { systemParts } from "../../../src/runtime/system.ts";
import type { LeaseRef, Store } from "../../../src/stores/contract.ts";
import { type PostgresOptions, postgresStore } from "../../../src/stores/postgres/index.ts";
import { until } from "../../servers/ask.ts";
import { startPostgres } from "../../servers/postgres.ts";
import { useServer } from "../../servers/use-server.ts";
import { countingPool } from "../../support/stores/counting-pool.ts";

const LIMIT_MS = 5_000;
const server = useServer(startPostgres);

/** Opens a store whose session "s" has lost its lease by a revocation. */
async function openWithRevocation(
  options: PostgresOptions,
): Promise<{ store: Store; ref: LeaseRef }> {
  const store = await postgresStore(options)(systemParts());
  onTestFinished(() => store.close());
  const session = { sessionId: "s", holderId: "s", limitMs: LIMIT_MS };
  await store.openSession({ ...session, ttlMs: 30_000 });
  const wish = { ...session, resource: "r", attempt: "s.1", queue: false };
  const outcome = await store.grant(wish);
  if (outcome.kind !== "granted") throw new Error(`Expected a grant, got ${outcome.kind}.`);
  const ref = { resource: "r", token: outcome.token };
  await store.revoke({ ...ref, limitMs: LIMIT_MS });
  return { store, ref };
}

function countRows(schema: string): Promise<string> {
  return server().sql(`SELECT count(*) FROM ${schema}.revocation`);
}

test("a renewal that acknowledges a revocation is one statement and deletes its row", async () => {
  const pool = new pg.Pool({ connectionString: server().url, max: 1 });
  onTestFinished(() => pool.end());
  const counting = countingPool(pool);
  const { store, ref } = await openWithRevocation({ client: counting, prefix: "deleted" });
  expect(await countRows("deleted")).toBe("1");
  const before = counting.statements;
  const session = { sessionId: "s", limitMs: LIMIT_MS };
  const renewal = await store.renew({ ...session, withdrawn: [], acknowledged: [ref] });
  expect(renewal).toMatchObject({ kind: "renewed", ttlMs: 30_000, gone: [] });
  expect(counting.statements - before).toBe(1);
  expect(await countRows("deleted")).toBe("0");
});

test("ending a session and a renewal that acknowledges a revocation do not deadlock", async () => {
  const { store, ref } = await openWithRevocation({ url: server().url, prefix: "locked" });
  const acknowledged = JSON.stringify([{ resource: "r", token: String(ref.token) }]);
  const renewal = new pg.Client({ connectionString: server().url });
  onTestFinished(() => renewal.end());
  await renewal.connect();
  await renewal.query("BEGIN");
  // From now on the transaction locks the session's row, as between two steps of one renewal.
  await renewal.query("SELECT locked.renew('s', '[]', '[]', '[]', 5000)");
  const ended = store.endSession({ sessionId: "s", limitMs: LIMIT_MS });
  const waits = `SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%end_session%'`;
  await until("the end waits", async () => (await server().sql(waits)) !== "0", LIMIT_MS);
  // This must not have to wait; the limit is shorter than the server's deadlock detection.
  await renewal.query(`SELECT locked.renew('s', '[]', '${acknowledged}', '[]', 300)`);
  await renewal.query("COMMIT");
  await ended;
  expect(await countRows("locked")).toBe("0");
});
