// Goal: behaviour of the PostgreSQL guard beyond the suite: races of two sessions, isolation
// levels, stopped holders, broken connections. Method: a real server; rows are read back through
// psql.
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import postgresjs from "postgres";
import { describe, expect, expectTypeOf, test } from "vitest";
import { connect } from "../../../src/connect.ts";
import {
  type PostgresGuard,
  postgresGuard,
  type TokenSource,
} from "../../../src/guards/postgres/index.ts";
import { startPostgres } from "../../servers/postgres.ts";
import { startProxy } from "../../servers/proxy.ts";
import { useServer } from "../../servers/use-server.ts";
import {
  type Ledger,
  type Library,
  useLedgers,
} from "../../support/guards/postgres-guard-harness.ts";
import { Gate } from "../../support/holder/holder-world.ts";

const postgres = useServer(startPostgres);
const newLedger = useLedgers(postgres);

async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await sleep(20);
}

/** The number of sessions that wait for a lock on this ledger's highest tokens. */
async function waiting({ schema }: Ledger): Promise<number> {
  const text = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%${schema}%'`;
  return Number(await postgres().sql(text));
}

const source = (token: bigint, resource = "ledger"): TokenSource => ({ resource, token });
const code = (name: string): unknown => expect.objectContaining({ code: name });

describe.each<Library>(["pg", "postgres"])("through %s", (library) => {
  test("S6: the work is not committed if the lease is lost during it", async () => {
    await using tenure = await connect("memory:");
    const ledger = await newLedger();
    const { guard, append } = ledger.guard(library);
    const lease = await tenure.acquire("ledger");
    const late = guard.transaction(lease, async (tx) => {
      await append(tx, "ledger", "late");
      await lease.release({ drainMs: 0 });
    });
    await expect(late).rejects.toThrow(code("LEASE_LOST") as Error);
    expect(await ledger.written()).toEqual([]);
    expect(await guard.highest("ledger")).toBeUndefined();
  });

  test("inside withLease() the guard finds the lease and returns the result of the function", async () => {
    await using tenure = await connect("memory:");
    const ledger = await newLedger();
    const { guard, append } = ledger.guard(library);
    const answer = await tenure.withLease("ledger", { guards: [guard] }, async (lease) => {
      expect(await guard.highest("ledger")).toBe(lease.token);
      return guard.transaction(async (tx) => {
        await append(tx, "ledger", "found");
        return [1, 2];
      });
    });
    expect(answer).toEqual([1, 2]);
    expect(await ledger.written()).toEqual(["found"]);
  });

  test("S2: an advance waits for the transaction admitted before it, and ends that term", async () => {
    const ledger = await newLedger();
    const [older, newer] = [ledger.guard(library), ledger.guard(library)];
    const [begun, go] = [new Gate(), new Gate()];
    const first = older.guard.transaction(source(1n), async (tx) => {
      begun.open();
      await go.opened;
      await older.append(tx, "ledger", "in time");
    });
    await begun.opened;
    let isAdvanced = false;
    const advancing = newer.guard.advance(source(2n)).then(() => {
      isAdvanced = true;
    });
    await until(async () => isAdvanced || (await waiting(ledger)) === 1);
    expect(isAdvanced).toBe(false);
    go.open();
    await first;
    await advancing;
    const late = older.guard.transaction(source(1n), (tx) => older.append(tx, "ledger", "late"));
    await expect(late).rejects.toMatchObject({ code: "STALE_TOKEN", offered: 1n, highest: 2n });
    expect(await ledger.written()).toEqual(["in time"]);
  });

  test("S2: a writer that waited for an advance that was rolled back blocks the next advance", async () => {
    const ledger = await newLedger();
    const [writer, successor] = [ledger.guard(library), ledger.guard(library)];
    await writer.guard.advance(source(1n));
    const advancer = await ledger.pool().connect();
    await advancer.query(`BEGIN; SELECT ${ledger.schema}.admit('ledger', 2)`);
    const [inside, end] = [new Gate(), new Gate()];
    let isInside = false;
    const writing = writer.guard.transaction(source(1n), async (tx) => {
      isInside = true;
      inside.open();
      await end.opened;
      await writer.append(tx, "ledger", "of the old term");
    });
    await until(async () => isInside || (await waiting(ledger)) === 1);
    await advancer.query("ROLLBACK");
    advancer.release();
    await inside.opened;
    let isAdvanced = false;
    const advancing = successor.guard.advance(source(2n)).then(() => {
      isAdvanced = true;
    });
    await until(async () => isAdvanced || (await waiting(ledger)) === 1);
    expect(isAdvanced).toBe(false);
    end.open();
    await Promise.all([writing, advancing]);
    expect(await ledger.written()).toEqual(["of the old term"]);
  });

  test("writers of one term run concurrently", async () => {
    const ledger = await newLedger();
    const { guard, append } = ledger.guard(library);
    await guard.advance(source(1n));
    const [one, two] = [new Gate(), new Gate()];
    // Each waits until the other has started, so they can only finish if they run concurrently.
    await Promise.all([
      guard.transaction(source(1n), async (tx) => {
        one.open();
        await two.opened;
        await append(tx, "ledger", "a");
      }),
      guard.transaction(source(1n), async (tx) => {
        two.open();
        await one.opened;
        await append(tx, "ledger", "b");
      }),
    ]);
    expect((await ledger.written()).sort()).toEqual(["a", "b"]);
  });

  test("a holder that is idle in its transaction delays its successor by at most `idleMs`", async () => {
    const ledger = await newLedger();
    const stopped = ledger.guard(library, { idleMs: 300 });
    const successor = ledger.guard(library);
    const [begun, go] = [new Gate(), new Gate()];
    const standing = stopped.guard.transaction(source(1n), async (tx) => {
      await stopped.append(tx, "ledger", "never committed");
      begun.open();
      await go.opened;
    });
    const failed = expect(standing).rejects.toThrow();
    await begun.opened;
    await successor.guard.advance(source(2n));
    go.open();
    await failed;
    expect(await ledger.written()).toEqual([]);
    // The pool is usable again.
    await stopped.guard.transaction(source(2n), (tx) => stopped.append(tx, "ledger", "later"));
    expect(await ledger.written()).toEqual(["later"]);
  });

  test("an advance that waits longer than `waitMs` fails with a retryable error and changes nothing", async () => {
    const ledger = await newLedger();
    const [older, newer] = [ledger.guard(library), ledger.guard(library, { waitMs: 200 })];
    const refused = older.guard.transaction(source(1n), async () => {
      const facts = { code: "GUARD_UNAVAILABLE", applied: "no", retryable: true };
      await expect(newer.guard.advance(source(2n))).rejects.toMatchObject(facts);
    });
    await refused;
    expect(await newer.guard.highest("ledger")).toBe(1n);
  });

  test.each(["repeatable read", "serializable"] as const)(
    "S2: in %s a snapshot from before an advance admits no token",
    async (isolation) => {
      const ledger = await newLedger();
      const { guard, append } = ledger.guard(library, { isolation });
      await guard.advance(source(1n));
      await guard.transaction(source(1n), (tx) => append(tx, "ledger", "admitted"));
      const client = await ledger.pool().connect();
      try {
        await client.query(`BEGIN ISOLATION LEVEL ${isolation}`);
        await client.query("SELECT 1 FROM pg_class");
        await guard.advance(source(2n));
        const late = client.query(`SELECT ${ledger.schema}.admit('ledger', 1)`);
        await expect(late).rejects.toThrow(code("40001") as Error);
      } finally {
        await client.query("ROLLBACK");
        client.release();
      }
      const late = guard.transaction(source(1n), (tx) => append(tx, "ledger", "late"));
      await expect(late).rejects.toThrow(code("STALE_TOKEN") as Error);
      expect(await ledger.written()).toEqual(["admitted"]);
    },
  );

  test("a stream of writers of the old term does not starve an advance", async () => {
    const ledger = await newLedger();
    const { guard, append } = ledger.guard(library);
    await guard.advance(source(1n));
    let isOver = false;
    const writer = async (): Promise<unknown> => {
      while (!isOver) {
        try {
          await guard.transaction(source(1n), (tx) => append(tx, "ledger", "old"));
        } catch (error) {
          return (error as { code: string }).code;
        }
      }
      return "never refused";
    };
    const writing = Promise.all([writer(), writer(), writer()]);
    await ledger.guard(library).guard.advance(source(2n));
    expect(await writing).toEqual(["STALE_TOKEN", "STALE_TOKEN", "STALE_TOKEN"]);
    isOver = true;
  });

  test("a failed statement whose error is ignored is not reported as written", async () => {
    const ledger = await newLedger();
    const { guard, append } = ledger.guard(library);
    const swallowing = guard.transaction(source(1n), async (tx) => {
      await append(tx, "ledger", "lost");
      await append(tx, "ledger", "\0").catch(() => undefined);
    });
    await expect(swallowing).rejects.toThrow();
    expect(await ledger.written()).toEqual([]);
    expect(await guard.highest("ledger")).toBeUndefined();
  });

  test("a commit without a reply is reported as unknown, and may have happened", async () => {
    const ledger = await newLedger();
    await using proxy = await startProxy(postgres());
    const { guard, append } = ledger.guard(library, {}, proxy.url);
    const cut = guard.transaction(source(1n), async (tx) => {
      await append(tx, "ledger", "committed");
      proxy.cut("replies");
    });
    const facts = { code: "GUARD_UNAVAILABLE", applied: "unknown" };
    const unknown = expect(cut).rejects.toMatchObject(facts);
    await until(async () => (await ledger.written()).length === 1);
    proxy.reset();
    await unknown;
  });
});

describe("an instance of postgres.js", () => {
  test("statements, savepoints and the end of a transaction are safe after its connection was closed", async () => {
    const ledger = await newLedger();
    // Longer than this process is without a processor on a busy machine. The server must not close
    // the connection while a statement is written: postgres.js 3.4.9 throws an uncaught TypeError
    // then (porsager/postgres#1208).
    const idleMs = 1_000;
    const guard = postgresGuard(ledger.sql(), { prefix: ledger.schema, idleMs });
    const told: string[] = [];
    const closed = guard.transaction(source(1n), async (tx) => {
      await tx.savepoint(async (inner) => {
        await inner`INSERT INTO ${tx.unsafe(ledger.table)} (text) VALUES ('never')`;
        await sleep(2 * idleMs);
        await (async () => inner`SELECT 1`)().catch((error: Error) => told.push(error.message));
        await (async () => tx.unsafe("SELECT 1"))().catch((error: Error) =>
          told.push(error.message),
        );
      });
      told.push("never reached");
    });
    await expect(closed).rejects.toThrow();
    await until(async () => told.length === 2);
    await sleep(50);
    expect(told).toEqual(Array(2).fill("The connection of this transaction was closed."));
    expect(await ledger.written()).toEqual([]);
    await guard.transaction(source(1n), (tx) => tx.unsafe("SELECT 1"));
  });
});

describe("a connection of pg", () => {
  test("S6: a lost lease is rejected before anything is sent", async () => {
    await using tenure = await connect("memory:");
    const pool = new pg.Pool({ connectionString: "postgres://127.0.0.1:1/none" });
    const guard = postgresGuard(pool);
    const lease = await tenure.acquire("ledger");
    await expect(guard.advance(lease)).rejects.toMatchObject({
      code: "GUARD_UNAVAILABLE",
      applied: "no",
    });
    await lease.release();
    await expect(guard.advance(lease)).rejects.toThrow(code("LEASE_LOST") as Error);
    const late = guard.transaction(lease, () => undefined);
    await expect(late).rejects.toThrow(code("LEASE_LOST") as Error);
    await pool.end();
  });

  test("a Client runs one guarded transaction at a time, and none inside another", async () => {
    const ledger = await newLedger();
    const client = new pg.Client(postgres().url);
    await client.connect();
    const guard = postgresGuard(client, { prefix: ledger.schema });
    const outer = guard.transaction(source(1n), async (tx) => {
      expect(tx).toBe(client);
      const nested = guard.transaction(source(1n), () => undefined);
      await expect(nested).rejects.toThrow("one at a time");
      await tx.query(`INSERT INTO ${ledger.table} (text) VALUES ('outer')`);
    });
    await outer;
    await client.query("BEGIN");
    await client.query("SELECT 1");
    const inside = guard.transaction(source(1n), () => undefined);
    await expect(inside).rejects.toThrow("in a transaction already");
    await client.query("ROLLBACK");
    await guard.transaction(source(1n), () => undefined);
    await client.end();
    expect(await ledger.written()).toEqual(["outer"]);
  });

  test("the function gets the type of the library", () => {
    const pool = new pg.Pool();
    const ofPool = postgresGuard(pool);
    expectTypeOf(ofPool).toEqualTypeOf<PostgresGuard<pg.PoolClient>>();
    const sql = postgresjs("postgres://none");
    const ofSql = postgresGuard(sql);
    expectTypeOf(ofSql).toEqualTypeOf<PostgresGuard<postgresjs.TransactionSql>>();
    const ofClient = postgresGuard(new pg.Client());
    expectTypeOf(ofClient).toEqualTypeOf<PostgresGuard<pg.Client>>();
  });
});
