// Goal: each request is one round trip, and the statements keep their guarantees while other
// transactions change the same rows. Method: a user's own clients, counted; and transactions of a
// second connection that are held open at the worst moment.
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import postgresJs from "postgres";
import { describe, expect, test } from "vitest";
import { systemParts } from "../../../src/runtime/system.ts";
import type { GrantOutcome, Store } from "../../../src/stores/contract.ts";
import { type PostgresOptions, postgresStore } from "../../../src/stores/postgres/index.ts";
import { until } from "../../servers/ask.ts";
import { startPostgres } from "../../servers/postgres.ts";
import { startProxy } from "../../servers/proxy.ts";
import { useServer } from "../../servers/use-server.ts";
import { countingPool } from "../../support/stores/counting-pool.ts";
import { RecordedEvents } from "../../support/stores/session-events.ts";
import { startStopwatch } from "../../support/stores/stopwatch.ts";

const server = useServer(startPostgres);
const LIMIT_MS = 5_000;
/** A token far above what the clock gives. */
const AHEAD = 10n ** 18n;
let schemas = 0;

function newSchema(): string {
  schemas += 1;
  return `statements_${schemas}_${process.pid}`;
}

function open(options: PostgresOptions): Promise<Store> {
  return postgresStore(options)(systemParts());
}

async function session(store: Store, sessionId: string, ttlMs = 30_000): Promise<RecordedEvents> {
  const events = new RecordedEvents();
  const holderId = `of ${sessionId}`;
  await store.openSession({ sessionId, holderId, ttlMs, events, limitMs: LIMIT_MS });
  return events;
}

/** A session that never waits: without events, its process does not listen. */
async function plainSession(store: Store): Promise<void> {
  const request = { sessionId: "s", holderId: "of s", ttlMs: 30_000, limitMs: LIMIT_MS };
  await store.openSession(request);
}

function ask(
  store: Store,
  sessionId: string,
  attempt: string,
  limitMs = LIMIT_MS,
): Promise<GrantOutcome> {
  const holderId = `of ${sessionId}`;
  return store.grant({ sessionId, holderId, resource: "r", attempt, queue: false, limitMs });
}

async function take(store: Store, sessionId: string, attempt: string): Promise<bigint> {
  const outcome = await ask(store, sessionId, attempt);
  if (outcome.kind !== "granted") throw new Error(`Expected a grant, got ${outcome.kind}.`);
  return outcome.token;
}

async function withConsole(work: (client: pg.Client) => Promise<void>): Promise<void> {
  const client = new pg.Client({ connectionString: server().url });
  await client.connect();
  try {
    await work(client);
  } finally {
    await client.end();
  }
}

/** Waits until a statement on the schema is blocked by a lock. */
function untilBlocked(schema: string): Promise<void> {
  return withConsole(async (client) => {
    const waiting = `SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%${schema}%'`;
    while ((await client.query(waiting)).rowCount === 0);
  });
}

describe("round trips", () => {
  const cycle = async (store: Store, round: number): Promise<void> => {
    const token = await take(store, "s", `a${round}`);
    await store.release({ resource: "r", sessionId: "s", token, limitMs: LIMIT_MS });
    await store.renew({ sessionId: "s", withdrawn: [], acknowledged: [], limitMs: LIMIT_MS });
  };

  test("a grant, a release and a renewal of all leases are one statement each, through a pool of pg", async () => {
    const pool = new pg.Pool({ connectionString: server().url, max: 1 });
    const counting = countingPool(pool);
    const store = await open({ client: counting, prefix: newSchema() });
    await plainSession(store);
    await cycle(store, 0);
    const before = counting.statements;
    for (let round = 1; round <= 10; round += 1) await cycle(store, round);
    expect(counting.statements - before).toBe(30);
    await store.close();
    await pool.end();
  });

  test("a grant, a release and a renewal are one statement each, through an instance of postgres.js", async () => {
    const sql = postgresJs(server().url, { max: 1, onnotice: () => undefined });
    let statements = 0;
    const counting = {
      options: sql.options,
      end: () => sql.end(),
      unsafe: (text: string, values?: string[], options?: { prepare?: boolean }) => {
        statements += 1;
        return values === undefined ? sql.unsafe(text) : sql.unsafe(text, values, options);
      },
    };
    const store = await open({ client: counting, prefix: newSchema() });
    await plainSession(store);
    await cycle(store, 0);
    const before = statements;
    for (let round = 1; round <= 10; round += 1) await cycle(store, round);
    expect(statements - before).toBe(30);
    await store.close();
    await sql.end();
  });

  test.each(["pg", "postgres"] as const)(
    "each request is one packet on the wire, through %s",
    async (library) => {
      await using proxy = await startProxy(server());
      const store = await open({ url: proxy.url, library, prefix: newSchema() });
      await plainSession(store);
      // Once per connection, postgres.js prepares a statement in a separate round trip.
      for (let round = 0; round < 12; round += 1) await cycle(store, round);
      const before = proxy.counts().requests.chunks;
      for (let round = 20; round < 30; round += 1) await cycle(store, round);
      expect(proxy.counts().requests.chunks - before).toBe(30);
      await store.close();
    },
  );

  test("after a pooler has lost a prepared statement, statements are sent unnamed and succeed at once", async () => {
    const pool = new pg.Pool({ connectionString: server().url, max: 1 });
    const store = await open({ client: pool, prefix: newSchema() });
    await plainSession(store);
    const names = async (): Promise<number> =>
      Number((await pool.query("SELECT count(*) AS n FROM pg_prepared_statements")).rows[0].n);
    await cycle(store, 1);
    expect(await names()).toBeGreaterThan(2);
    // Like a pooler in transaction mode: the next statement reaches a server that does not know its
    // name.
    await pool.query("DEALLOCATE ALL");
    await cycle(store, 2);
    await cycle(store, 3);
    expect(await names()).toBe(0);
    await store.close();
    await pool.end();
  });

  test("a statement name that another client has taken does not matter", async () => {
    const pool = new pg.Pool({ connectionString: server().url, max: 1 });
    const schema = newSchema();
    const first = await open({ client: pool, prefix: schema });
    await plainSession(first);
    await cycle(first, 1);
    const taken = (await pool.query("SELECT name FROM pg_prepared_statements")).rows;
    await first.close();
    await pool.end();
    const fresh = new pg.Pool({ connectionString: server().url, max: 1 });
    for (const { name } of taken) await fresh.query(`PREPARE ${name} AS SELECT 1`);
    const second = await open({ client: fresh, prefix: schema });
    await plainSession(second);
    await cycle(second, 2);
    await second.close();
    await fresh.end();
  });

  test("the user's pool, client and instance stay open after close()", async () => {
    const pool = new pg.Pool({ connectionString: server().url });
    const client = new pg.Client({ connectionString: server().url });
    await client.connect();
    const sql = postgresJs(server().url, { onnotice: () => undefined });
    for (const given of [pool, client, sql]) {
      const store = await open({ client: given, prefix: newSchema() });
      await plainSession(store);
      expect(await take(store, "s", "a")).toBeGreaterThan(0n);
      await store.close();
    }
    expect((await pool.query("SELECT 1 AS one")).rows).toEqual([{ one: 1 }]);
    expect((await client.query("SELECT 1 AS one")).rows).toEqual([{ one: 1 }]);
    expect([...(await sql`SELECT 1 AS one`)]).toEqual([{ one: 1 }]);
    await Promise.all([pool.end(), client.end(), sql.end()]);
  });
});

describe("concurrent transactions", () => {
  test("S4: a lease is not taken from a session that is renewed while it expires", async () => {
    const schema = newSchema();
    const store = await open({ url: server().url, prefix: schema });
    await session(store, "old");
    await session(store, "new");
    await take(store, "old", "a");
    const expireIn = (time: string): string =>
      `UPDATE ${schema}.session SET expires = clock_timestamp() + interval '${time}' WHERE id = 'old'`;
    await withConsole(async (renewal) => {
      // Found alive, but not yet committed when its old end passes. In one message, so that a busy
      // machine cannot delay the renewal until after the end.
      const results: unknown = await renewal.query(`
        BEGIN; ${expireIn("300 ms")}; COMMIT;
        BEGIN; SELECT ${schema}.renew('old', '[]', '[]', '[]', 5000); ${expireIn("1 min")};
        SELECT pg_sleep(0.4)`);
      const [, , , , renewed] = results as pg.QueryResult[];
      expect(renewed?.rows[0].renew).toContain("ttlMs");
      const asked = ask(store, "new", "b");
      await untilBlocked(schema);
      await renewal.query("COMMIT");
      expect((await asked).kind).toBe("busy");
    });
    await store.close();
  });

  test("S4: a session that was alive when it was locked keeps its lease, even if it expires during the statement", async () => {
    const schema = newSchema();
    const store = await open({ url: server().url, prefix: schema });
    await session(store, "old", 2_000);
    await session(store, "new");
    await take(store, "old", "a");
    // Runs right after the other session has found nothing expired.
    await server().sql(`
      CREATE FUNCTION ${schema}.slow() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN PERFORM pg_sleep(2.1); RETURN NULL; END $$;
      CREATE TRIGGER slow AFTER UPDATE ON ${schema}.session FOR EACH STATEMENT EXECUTE FUNCTION ${schema}.slow()`);
    const grant = { sessionId: "new", holderId: "n", resource: "r", attempt: "b", queue: true };
    const asked = store.grant({ ...grant, limitMs: LIMIT_MS });
    expect((await asked).kind).toBe("queued");
    await store.close();
  });

  test("S4: a renewal that waits for a transaction ending its session reports the session gone, whatever the clock says", async () => {
    const schema = newSchema();
    const store = await open({ url: server().url, prefix: schema });
    await session(store, "old");
    const renew = () =>
      store.renew({ sessionId: "old", withdrawn: [], acknowledged: [], limitMs: LIMIT_MS });
    await withConsole(async (taker) => {
      await taker.query("BEGIN");
      // As a process does that considers the session expired.
      await taker.query(`UPDATE ${schema}.session SET ended = clock_timestamp() WHERE id = 'old'`);
      const renewed = renew();
      await untilBlocked(schema);
      await taker.query("COMMIT");
      expect((await renewed).kind).toBe("gone");
    });
    expect((await renew()).kind).toBe("gone");
    expect((await ask(store, "old", "a")).kind).toBe("gone");
    await store.close();
  });

  test("S1: the grant that waits for the deletion of its row continues above its token, also after TRUNCATE", async () => {
    const schema = newSchema();
    const store = await open({ url: server().url, prefix: schema });
    await session(store, "s");
    // Far ahead of the clock, so that only the raised floor keeps tokens from falling.
    await server().sql(`UPDATE ${schema}.era SET floor = ${AHEAD}`);
    for (const round of [0n, 1n, 2n]) {
      const token = await take(store, "s", `a${round}`);
      expect(token).toBe(AHEAD + round);
      await store.release({ resource: "r", sessionId: "s", token, limitMs: LIMIT_MS });
    }
    await withConsole(async (admin) => {
      await admin.query("BEGIN");
      await admin.query(`DELETE FROM ${schema}.lease`);
      const asked = take(store, "s", "b");
      await untilBlocked(schema);
      await admin.query("COMMIT");
      expect(await asked).toBe(AHEAD + 3n);
      await admin.query(`TRUNCATE ${schema}.lease`);
    });
    expect(await take(store, "s", "c")).toBe(AHEAD + 4n);
    await store.close();
  });

  test("S7: a request on a row that stays locked fails at its limit, and nothing was applied", async () => {
    const schema = newSchema();
    const store = await open({ url: server().url, prefix: schema });
    await session(store, "s");
    const token = await take(store, "s", "a");
    await withConsole(async (admin) => {
      await admin.query("BEGIN");
      await admin.query(`SELECT FROM ${schema}.lease FOR UPDATE`);
      const release = { resource: "r", sessionId: "s", token, limitMs: 300 };
      const error = await store.release(release).then(
        () => undefined,
        (reason: unknown) => reason as { code: string; applied: string },
      );
      expect(error?.code).toBe("STORE_UNAVAILABLE");
      // The server started to wait later than we did, and only its own limit can end that while the
      // row is locked.
      const waits =
        "SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'";
      const gaveUp = async (): Promise<boolean> => (await admin.query(waits)).rowCount === 0;
      await until("the server gave up as well", gaveUp, 10_000);
      await admin.query("ROLLBACK");
    });
    // The release did not take effect later either.
    expect((await ask(store, "s", "b")).kind).toBe("busy");
    await store.close();
  });

  test("conflicts under a stricter isolation level are retried with the same attempt", async () => {
    const schema = newSchema();
    const url = `${server().url}?options=-c%20default_transaction_isolation%3Dserializable`;
    const stores = await Promise.all(
      Array.from({ length: 6 }, () => open({ url, prefix: schema, library: "pg" })),
    );
    await Promise.all(stores.map((store, index) => session(store, `s${index}`)));
    let last: bigint | undefined;
    for (let round = 0; round < 10; round += 1) {
      const asked = stores.map((store, index) => ask(store, `s${index}`, `${round}.${index}`));
      const outcomes = await Promise.all(asked);
      const winner = outcomes.findIndex((outcome) => outcome.kind === "granted");
      const kinds = outcomes.map((outcome) => outcome.kind).sort();
      expect(kinds).toEqual(["busy", "busy", "busy", "busy", "busy", "granted"]);
      const granted = outcomes[winner];
      const [store] = stores.slice(winner);
      if (granted?.kind !== "granted" || store === undefined) throw new Error("unreachable");
      const { token } = granted;
      if (last !== undefined) expect(token).toBe(last + 1n);
      last = token;
      await store.release({ resource: "r", sessionId: `s${winner}`, token, limitMs: LIMIT_MS });
    }
    await Promise.all(stores.map((store) => store.close()));
  });

  test("S1: a grant waits for the disk even if synchronous_commit is off", async () => {
    const schema = newSchema();
    const store = await open({ url: server().url, prefix: schema });
    await session(store, "s");
    await withConsole(async (client) => {
      await client.query("SET synchronous_commit = off");
      await client.query("BEGIN");
      const step = { kind: "grant", resource: "r", session: "s", attempt: "a", holder: "h" };
      const steps = JSON.stringify([{ ...step, record: "{}", rank: 0, queue: false }]);
      await client.query(`SELECT ${schema}.step('${steps}', true, 5000)`);
      const shown = await client.query("SHOW synchronous_commit");
      expect(shown.rows).toEqual([{ synchronous_commit: "on" }]);
      await client.query("COMMIT");
      expect((await client.query("SHOW synchronous_commit")).rows).toEqual([
        { synchronous_commit: "off" },
      ]);
    });
    await store.close();
  });

  test.each(["a release", "a withdrawal", "a revocation", "the end of the session"] as const)(
    "L2: %s grants the resource to the waiter and notifies it",
    async (what) => {
      const store = await open({ url: server().url, prefix: newSchema() });
      await session(store, "old");
      const events = await session(store, "new");
      const token = await take(store, "old", "a");
      const held = { resource: "r", sessionId: "old", attempt: "a", token, limitMs: LIMIT_MS };
      const waiting = { sessionId: "new", resource: "r", attempt: "b", limitMs: LIMIT_MS };
      expect((await store.grant({ ...waiting, holderId: "n", queue: true })).kind).toBe("queued");
      if (what === "a release") await store.release(held);
      if (what === "a withdrawal") await store.withdraw(held);
      if (what === "a revocation") await store.revoke(held);
      if (what === "the end of the session") await store.endSession(held);
      expect(await events.tokenOf("b")).toBe(token + 1n);
      await store.close();
    },
  );

  test("S4: an expired session is granted nothing, even if the row exists and is free", async () => {
    const store = await open({ url: server().url, prefix: newSchema() });
    await session(store, "s", 300);
    const token = await take(store, "s", "a");
    await store.release({ resource: "r", sessionId: "s", token, limitMs: LIMIT_MS });
    await sleep(400);
    expect((await ask(store, "s", "b")).kind).toBe("gone");
    await store.endSession({ sessionId: "s", limitMs: LIMIT_MS });
    expect((await ask(store, "s", "c")).kind).toBe("gone");
    await store.close();
  });

  test("L2: if notifications are lost, as with a transaction pooler, waiters poll", async () => {
    const schema = newSchema();
    // Notifications do not cross databases.
    const elsewhere = server().url.replace(/[^/]*$/, "template1");
    const store = await open({ url: server().url, prefix: schema, listen: elsewhere });
    await session(store, "old");
    const events = await session(store, "new");
    const token = await take(store, "old", "a");
    const waiting = { sessionId: "new", resource: "r", attempt: "b", limitMs: LIMIT_MS };
    await store.grant({ ...waiting, holderId: "n", queue: true });
    // By now the listening connection has failed its test.
    await sleep(1_500);
    const stopwatch = startStopwatch();
    await store.release({ sessionId: "old", resource: "r", token, limitMs: LIMIT_MS });
    await events.tokenOf("b");
    expect(stopwatch.elapsedMs()).toBeLessThan(500);
    await store.close();
  });
});
