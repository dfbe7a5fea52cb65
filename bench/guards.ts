// What a guard costs: a guarded write against the same write without the guard, on the same
// connection. The lease is a real one, so its check() is included. remote-guards.ts has the guards
// of Redis, HTTP and files.

import { join } from "node:path";
import pg from "pg";
import { connect, type Lease } from "tenure";
import { memoryGuard } from "tenure/guards/memory";
import { postgresGuard, protectTable as protectPostgres } from "tenure/guards/postgres";
import { protectTable as protectSqlite, sqliteGuard } from "tenure/guards/sqlite";
import { loadDriver } from "../src/clients/sqlite/driver.ts";
import { type Contestant, compare, perSecond } from "./comparison.ts";
import { measureRate } from "./pairs.ts";
import { fileWrites, httpWrites, redisWrites, signatures } from "./remote-guards.ts";
import type { Section } from "./results.ts";
import type { Context } from "./topic.ts";

const SLICE_MS = 20;
const RESOURCE = "ledger";

export interface Write {
  readonly title: string;
  readonly bare: () => unknown;
  readonly guarded: () => unknown;
  /** Other forms of the write, for information: Tenure is compared with them, too. */
  readonly others?: Readonly<Record<string, () => unknown>>;
  /** The share of the bare write that the guarded one has to reach. */
  readonly target?: number;
  /** Writes between two readings of the clock. @default 1 */
  readonly batch?: number;
}

export async function* guards(context: Context): AsyncGenerator<Section> {
  const tenure = await connect("memory:");
  // No renewal is needed while synchronous writes block the event loop.
  const lease = await tenure.acquire(RESOURCE, { ttlMs: 600_000 });
  const rounds = context.quick ? 25 : 175;
  const writes = [
    memoryWrites(lease),
    sqliteWrites(lease, context.servers.folder),
    postgresWrites(lease, await context.servers.url("postgres")),
    redisWrites(lease, "fsync always", { appendonly: true, appendfsync: "always" }),
    redisWrites(lease, "in memory", { own: true }),
    httpWrites(lease),
    fileWrites(lease, context.servers.folder),
    signatures(lease),
  ];
  for (const each of writes) for await (const write of each) yield await measure(write, rounds);
  await tenure.close();
}

function measure(write: Write, rounds: number): Promise<Section> {
  const { title, bare, guarded, others = {}, target, batch = 1 } = write;
  const contestant = (act: () => unknown): Pick<Contestant, "warmUp" | "measure"> => ({
    warmUp: () => measureRate(act, { ms: 10 * SLICE_MS, batch }),
    measure: async () => ({ writes: await measureRate(act, { ms: SLICE_MS, batch }) }),
  });
  return compare({
    title,
    method: `${rounds} slices of ${SLICE_MS} ms, in turn.`,
    rounds,
    figures: { writes: perSecond },
    contestants: [
      { name: "guarded", kind: "tenure", ...contestant(guarded) },
      { name: "bare", kind: "baseline", target, ...contestant(bare) },
      ...Object.entries(others).map(
        ([name, act]): Contestant => ({ name, kind: "baseline", ...contestant(act) }),
      ),
    ],
  });
}

async function* memoryWrites(lease: Lease): AsyncGenerator<Write> {
  const guard = memoryGuard();
  let count = 0;
  const bare = (): void => {
    count += 1;
  };
  const guarded = (): void => guard.write(lease, bare);
  yield { title: "Memory guard: a write of nothing", bare, guarded, batch: 1_000 };
  if (count === 0) throw new Error("nothing was written");
}

async function* sqliteWrites(lease: Lease, folder: string): AsyncGenerator<Write> {
  const driver = await loadDriver();
  const open = (name: string) => {
    const database = driver.open(join(folder, name));
    database.exec("PRAGMA journal_mode = WAL");
    database.exec("PRAGMA synchronous = FULL");
    database.exec("CREATE TABLE entry (seq INTEGER PRIMARY KEY, text TEXT NOT NULL)");
    const insert = database.prepare("INSERT INTO entry (text) VALUES (?)");
    return { database, write: (): void => void insert.run("an entry of the ledger") };
  };
  const [plain, guarded, closed] = [open("plain.db"), open("guarded.db"), open("protected.db")];
  protectSqlite(closed.database, "entry", { resource: RESOURCE });
  const begin = plain.database.prepare("BEGIN IMMEDIATE");
  const commit = plain.database.prepare("COMMIT");
  const guard = sqliteGuard(guarded.database);
  const closedGuard = sqliteGuard(closed.database);
  yield {
    title: `SQLite guard (${driver.name}): one insert per transaction`,
    bare: () => {
      begin.run();
      plain.write();
      commit.run();
    },
    guarded: () => guard.transaction(lease, guarded.write),
    others: {
      "guarded, in a protected table": () => closedGuard.transaction(lease, closed.write),
    },
    target: 0.9,
  };
  for (const { database } of [plain, guarded, closed]) database.close();
}

async function* postgresWrites(lease: Lease, url: string): AsyncGenerator<Write> {
  const pool = new pg.Pool({ connectionString: url, max: 8 });
  for (const table of ["plain", "guarded", "closed"])
    await pool.query(`CREATE TABLE ${table} (seq bigserial PRIMARY KEY, text text NOT NULL)`);
  await protectPostgres(pool, "public.closed", { resource: RESOURCE });
  const guard = postgresGuard(pool);
  const insert = (table: string) => (client: pg.PoolClient) =>
    client.query(`INSERT INTO ${table} (text) VALUES ($1)`, ["an entry of the ledger"]);
  const bare = async (): Promise<void> => {
    const client = await pool.connect();
    await client.query("BEGIN");
    await insert("plain")(client);
    await client.query("COMMIT");
    client.release();
  };
  const guarded = (): Promise<unknown> => guard.transaction(lease, insert("guarded"));
  yield {
    title: "PostgreSQL guard (pg): one insert per transaction",
    bare,
    guarded,
    others: {
      "guarded, in a protected table": () => guard.transaction(lease, insert("closed")),
    },
    target: 0.8,
  };
  const eight = (act: () => Promise<unknown>) => () =>
    Promise.all(Array.from({ length: 8 }, () => act()));
  yield {
    title: "PostgreSQL guard (pg): eight transactions in flight",
    bare: eight(bare),
    guarded: eight(guarded),
  };
  await pool.end();
}
