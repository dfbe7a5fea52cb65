// Runs the PostgreSQL store from a URL and on the user's own pool or `sql`, and the guard.
// `LIBRARY` is pg or postgres.
import assert from "node:assert/strict";
import { connect } from "tenure";
import { postgresGuard } from "tenure/guards/postgres";
import { postgresStore } from "tenure/stores/postgres";

const { TENURE_URL: url, LIBRARY: library } = process.env;

async function ownClient() {
  if (library === "pg") {
    const { default: pg } = await import("pg");
    const pool = new pg.Pool({ connectionString: url });
    return {
      given: { client: pool },
      target: pool,
      query: (text) => pool.query(text),
      end: () => pool.end(),
    };
  }
  const { default: postgres } = await import("postgres");
  const sql = postgres(url, { onnotice: () => undefined });
  return {
    given: { client: sql },
    target: sql,
    query: (text) => sql.unsafe(text),
    end: () => sql.end(),
  };
}

async function leaseOver(store) {
  const tenure = await connect(store);
  const first = await tenure.acquire("installs/lease", { waitMs: 20_000 });
  const waiting = tenure.acquire("installs/lease", { waitMs: 20_000 });
  assert.equal(await tenure.tryAcquire("installs/lease"), undefined);
  await first.release();
  const second = await waiting;
  assert.ok(second.token > first.token, `${second.token} is not above ${first.token}`);
  await tenure.close();
}

await leaseOver(postgresStore({ url, library }));
const { given, target, query, end } = await ownClient();
await leaseOver(postgresStore(given));

await query("CREATE TABLE IF NOT EXISTS installs (value TEXT)");
const guard = postgresGuard(target);
const tenure = await connect(postgresStore(given));
await tenure.withLease("installs/guard", async (lease) => {
  await guard.transaction(lease, (transaction) =>
    library === "pg"
      ? transaction.query("INSERT INTO installs VALUES ('written')")
      : transaction`INSERT INTO installs VALUES ('written')`,
  );
});
await tenure.close();
await end();
console.log("passed");
