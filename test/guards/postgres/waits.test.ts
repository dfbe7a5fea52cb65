// Goal: how long an advance of the PostgreSQL guard waits, for which transactions, and what it
// reports when it gives up. Method: a real server; the writers of the previous term are plain SQL
// in their own transactions.
import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { afterEach, describe, expect, test } from "vitest";
import { connect } from "../../../src/connect.ts";
import type { TokenSource } from "../../../src/guards/postgres/index.ts";
import { startPostgres } from "../../servers/postgres.ts";
import { useServer } from "../../servers/use-server.ts";
import {
  type Ledger,
  type Library,
  useLedgers,
} from "../../support/guards/postgres-guard-harness.ts";

const postgres = useServer(startPostgres);
const newLedger = useLedgers(postgres);

const source = (token: bigint, resource = "ledger"): TokenSource => ({ resource, token });
const LIMIT = "idle_in_transaction_session_timeout";

async function until(isSo: () => Promise<boolean>): Promise<void> {
  while (!(await isSo())) await sleep(20);
}

/** The number of sessions that wait for a lock of this ledger's guard. */
async function waiting({ schema }: Ledger): Promise<number> {
  const text = `SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query LIKE '%${schema}%'`;
  return Number(await postgres().sql(text));
}

const clients: pg.Client[] = [];

afterEach(async () => {
  for (const client of clients.splice(0)) await client.end().catch(() => undefined);
});

type Backend = pg.Client & { readonly processID: number };

async function newClient(): Promise<Backend> {
  const client = new pg.Client(postgres().url);
  client.on("error", () => undefined);
  clients.push(client);
  await client.connect();
  return client as Backend;
}

/** A connection in a transaction that was admitted with token 1. */
async function writer(ledger: Ledger, token = 1n): Promise<Backend> {
  const client = await newClient();
  await client.query(`BEGIN; SELECT ${ledger.schema}.admit('ledger', ${token})`);
  return client;
}

/** The value of the idle limit in the transaction that `client` has open. */
async function idleLimit(client: pg.Client): Promise<string> {
  return (await client.query(`SHOW ${LIMIT}`)).rows[0][LIMIT];
}

describe.each<Library>(["pg", "postgres"])("an advance through %s", (library) => {
  test("L1: is granted before writers of the earlier term that arrive later", async () => {
    const ledger = await newLedger();
    const { guard } = ledger.guard(library);
    await guard.advance(source(1n));
    const before = await writer(ledger);
    const advancing = guard.advance(source(2n));
    await until(async () => (await waiting(ledger)) === 1);
    const after = await newClient();
    let isAdmitted = false;
    const joining = after.query(`BEGIN; SELECT ${ledger.schema}.admit('ledger', 1)`).then(() => {
      isAdmitted = true;
    });
    const refused = expect(joining).rejects.toMatchObject({ code: "TN001" });
    await until(async () => isAdmitted || (await waiting(ledger)) === 2);
    await before.query("COMMIT");
    await advancing;
    await refused;
    expect(await guard.highest("ledger")).toBe(2n);
  });

  test("waits for `waitMs` in total, however many transactions it waits for", async () => {
    const ledger = await newLedger();
    const { guard } = ledger.guard(library, { waitMs: 1_000 });
    await guard.advance(source(1n));
    const writers: pg.Client[] = [];
    for (let count = 0; count < 12; count += 1) writers.push(await writer(ledger));
    const advancing = guard.advance(source(2n));
    const facts = { code: "GUARD_UNAVAILABLE", applied: "no", retryable: true };
    const failed = expect(advancing).rejects.toMatchObject(facts);
    // Each of these waits is shorter than the limit. Together they are longer.
    for (const client of writers) {
      await sleep(200);
      await client.query("COMMIT");
    }
    await failed;
    expect(await guard.highest("ledger")).toBe(1n);
    await guard.advance(source(2n));
  });

  test("is also limited when sessions keep taking row locks without admit()", async () => {
    const ledger = await newLedger();
    const { guard } = ledger.guard(library, { waitMs: 500 });
    await guard.advance(source(1n));
    const lock = `BEGIN; SELECT FROM ${ledger.schema}.highest FOR SHARE`;
    const [one, two] = [await newClient(), await newClient()];
    await one.query(lock);
    let isOver = false;
    const advancing = guard.advance(source(2n)).finally(() => {
      isOver = true;
    });
    const failed = expect(advancing).rejects.toMatchObject({ code: "GUARD_UNAVAILABLE" });
    // One of the two has the lock at any time.
    while (!isOver) {
      await two.query(lock);
      await one.query("COMMIT");
      await one.query(lock);
      await two.query("COMMIT");
    }
    await failed;
    await one.query("COMMIT");
    await guard.advance(source(2n));
  });

  test("names the blocking backend and how long it has been idle", async () => {
    const ledger = await newLedger();
    const { guard } = ledger.guard(library, { waitMs: 300 });
    await guard.advance(source(1n));
    const [idle, second] = [await writer(ledger), await writer(ledger)];
    const message = expect.stringMatching(
      new RegExp(`backend pid ${idle.processID} \\(idle in transaction for \\d+\\.\\d s\\)`),
    );
    await expect(guard.advance(source(2n))).rejects.toMatchObject({
      code: "GUARD_UNAVAILABLE",
      applied: "no",
      message,
    });
    await expect(guard.advance(source(2n))).rejects.toThrow(`backend pid ${second.processID}`);
    await expect(guard.advance(source(2n))).rejects.toThrow("pg_terminate_backend");
  });

  test("of acquire() gives up before the lease expires, so that its reason is reported", async () => {
    await using tenure = await connect("memory:");
    const ledger = await newLedger();
    const { guard } = ledger.guard(library);
    const first = await tenure.acquire("ledger", { guards: [guard] });
    await first.release();
    const idle = await writer(ledger, first.token);
    await idle.query(`SET LOCAL ${LIMIT} = 0`);
    const acquiring = tenure.acquire("ledger", { guards: [guard], ttlMs: 3_000 });
    await expect(acquiring).rejects.toThrow(`backend pid ${idle.processID} (idle in transaction`);
    expect((await tenure.read("ledger")).holder).toBeUndefined();
  });
});

describe("admit() in the user's own transaction", () => {
  test("the first writers of a new term do not deadlock", async () => {
    const ledger = await newLedger();
    await ledger.guard().guard.advance(source(1n));
    const several = await Promise.all(Array.from({ length: 8 }, newClient));
    for (let token = 2; token < 12; token += 1) {
      const admit = `BEGIN; SELECT ${ledger.schema}.admit('ledger', ${token}); COMMIT`;
      await Promise.all(several.map((client) => client.query(admit)));
    }
    expect(await ledger.guard().guard.highest("ledger")).toBe(11n);
  });

  test("L1: the server ends an idle transaction, and the advance continues", async () => {
    const ledger = await newLedger();
    const { guard } = ledger.guard();
    await guard.advance(source(1n));
    const stopped = await writer(ledger);
    await stopped.query(`INSERT INTO ${ledger.table} (text) VALUES ('never committed')`);
    await guard.advance(source(2n));
    await expect(stopped.query("COMMIT")).rejects.toThrow();
    expect(await ledger.written()).toEqual([]);
  });

  test("limits the idle time of that transaction only", async () => {
    const ledger = await newLedger();
    await ledger.guard().guard.advance(source(1n));
    const client = await writer(ledger);
    expect(await idleLimit(client)).toBe("5s");
    await client.query("COMMIT");
    expect(await idleLimit(client)).toBe("0");
    await client.query(`BEGIN; SELECT ${ledger.schema}.admit('ledger', 2)`);
    expect(await idleLimit(client)).toBe("5s");
    await client.query(`SET LOCAL ${LIMIT} = '1min'`);
    expect(await idleLimit(client)).toBe("1min");
  });

  test.each([
    ["700ms", "700ms"],
    ["2s", "2s"],
    ["5s", "5s"],
    ["90s", "5s"],
    ["1h", "5s"],
    ["0", "5s"],
  ])("an idle limit of %s becomes %s", async (own, expected) => {
    const ledger = await newLedger();
    await ledger.guard().guard.advance(source(1n));
    const client = await newClient();
    await client.query(`SET ${LIMIT} = '${own}'`);
    // In one message, because on a busy machine the limit of 700 ms may pass before a second one
    // arrives.
    const [, , shown] = (await client.query(
      `BEGIN; SELECT ${ledger.schema}.admit('ledger', 1); SHOW ${LIMIT}; COMMIT`,
    )) as unknown as pg.QueryResult[];
    expect(shown?.rows).toEqual([{ [LIMIT]: expected }]);
  });

  test("without another limit, admit() waits for at most 10 s", async () => {
    const ledger = await newLedger();
    await ledger.guard().guard.advance(source(1n));
    const idle = await writer(ledger);
    await idle.query(`SET LOCAL ${LIMIT} = 0`);
    const admit = `SELECT ${ledger.schema}.admit('ledger', 2)`;
    const own = (await newClient()).query(`SET lock_timeout = '300ms'; ${admit}`);
    await expect(own).rejects.toMatchObject({
      code: "55P03",
      message: expect.stringContaining("within 300 ms"),
    });
    await expect(postgres().sql(admit)).rejects.toThrow("within 10000 ms");
  });
});
