// What a guard costs: a guarded write against the same write in a bare transaction, on the same connection, in the same run.
// The lease is a real one, so that its check() is in the figure.

import { join } from "node:path";
import pg from "pg";
import { connect, type Lease } from "tenure";
import { memoryGuard } from "tenure/guards/memory";
import { postgresGuard, protectTable as protectPostgres } from "tenure/guards/postgres";
import { protectTable as protectSqlite, sqliteGuard } from "tenure/guards/sqlite";
import { loadDriver } from "../src/clients/sqlite/driver.ts";
import { startPostgres } from "../test/servers/postgres.ts";
import { atLeast, inTempFolder, median, type Row, type Section, spread } from "./support.ts";

const ROUNDS = 7;
/** Short slices in turn, so that whatever else the machine does falls on all of them alike. */
const SLICE_MS = 20;
const SLICES = 25;
export const METHOD: string = methodOf(ROUNDS);

function methodOf(rounds: number): string {
  return `${rounds} rounds of ${SLICES} x ${SLICE_MS} ms for each form, in turn, one insert per transaction; SQLite in WAL with synchronous FULL, PostgreSQL on loopback with fsync; median, (min-max).`;
}

type Act = () => unknown;

export async function guards(rounds: number = ROUNDS): Promise<Section> {
  const tenure = await connect("memory:");
  // Long enough to need no renewal while a synchronous round keeps the event loop busy.
  const lease = await tenure.acquire("ledger", { ttlMs: 600_000 });
  const rows = [
    ...(await ofMemory(lease, rounds)),
    ...(await ofSqlite(lease, rounds)),
    ...(await ofPostgres(lease, rounds)),
  ];
  await tenure.close();
  return { title: "Guarded writes against bare ones", method: methodOf(rounds), rows };
}

async function ofMemory(lease: Lease, rounds: number): Promise<Row[]> {
  const guard = memoryGuard();
  let count = 0;
  const bare = (): void => {
    count += 1;
  };
  const guarded = await compare({ bare, guarded: () => guard.write(lease, bare) }, 1_000, rounds);
  if (count === 0) throw new Error("nothing was written");
  const nanoseconds = 1e9 / median(guarded.guarded);
  return [{ what: "memory: a guarded write of nothing", measured: `${nanoseconds.toFixed(0)} ns` }];
}

async function ofSqlite(lease: Lease, rounds: number): Promise<Row[]> {
  return inTempFolder(async (folder) => {
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
    protectSqlite(closed.database, "entry", { resource: "ledger" });
    const begin = plain.database.prepare("BEGIN IMMEDIATE");
    const commit = plain.database.prepare("COMMIT");
    const guard = sqliteGuard(guarded.database);
    const guardOfClosed = sqliteGuard(closed.database);
    const forms = {
      bare: () => {
        begin.run();
        plain.write();
        commit.run();
      },
      guarded: () => guard.transaction(lease, guarded.write),
      protected: () => guardOfClosed.transaction(lease, closed.write),
    };
    const rates = await compare(forms, 1, rounds);
    for (const { database } of [plain, guarded, closed]) database.close();
    return ratios(`SQLite (${driver.name})`, rates, 0.9);
  });
}

async function ofPostgres(lease: Lease, rounds: number): Promise<Row[]> {
  await using server = await startPostgres({ own: true });
  const pool = new pg.Pool({ connectionString: server.url, max: 8 });
  const name = (table: string): string => `public.${table}`;
  for (const table of ["plain", "guarded", "closed"]) {
    await pool.query(`CREATE TABLE ${table} (seq bigserial PRIMARY KEY, text text NOT NULL)`);
  }
  await protectPostgres(pool, name("closed"), { resource: "ledger" });
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
  const acts = {
    bare,
    guarded: () => guard.transaction(lease, insert("guarded")),
    protected: () => guard.transaction(lease, insert("closed")),
  };
  const alone = await compare(acts, 1, rounds);
  const crowd = (act: () => Promise<unknown>) => () =>
    Promise.all(Array.from({ length: 8 }, () => act()));
  const together = await compare({ bare: crowd(bare), guarded: crowd(acts.guarded) }, 1, rounds);
  await pool.end();
  return [
    ...ratios("PostgreSQL (pg)", alone, 0.8),
    ...ratios("PostgreSQL (pg), 8 in flight", together, undefined, 8),
  ];
}

/** How often each act can be done in a second, by round. */
export async function compare<Name extends string>(
  acts: Record<Name, Act>,
  batch = 1,
  rounds: number = ROUNDS,
): Promise<Record<Name, number[]>> {
  const names = Object.keys(acts) as Name[];
  const rates = Object.fromEntries(names.map((name) => [name, [] as number[]]));
  for (let round = -1; round < rounds; round += 1) {
    const totals = names.map((name) => ({ name, done: 0, ms: 0 }));
    for (let slice = 0; slice < SLICES; slice += 1) {
      for (const total of totals) await runSlice(acts[total.name], batch, total);
    }
    // The first round warms up the disk cache and the compiler.
    if (round < 0) continue;
    for (const { name, done, ms } of totals) rates[name]?.push((done * 1000) / ms);
  }
  return rates as Record<Name, number[]>;
}

async function runSlice(
  act: Act,
  batch: number,
  total: { done: number; ms: number },
): Promise<void> {
  const start = performance.now();
  do {
    for (let index = 0; index < batch; index += 1) {
      const result = act();
      if (result instanceof Promise) await result;
    }
    total.done += batch;
  } while (performance.now() - start < SLICE_MS);
  total.ms += performance.now() - start;
}

export function ratios(
  what: string,
  rates: { bare: number[]; guarded: number[]; protected?: number[] },
  target?: number | undefined,
  each = 1,
): Row[] {
  const shown = (value: number): string => `${value.toFixed(2)}x`;
  const by = (values: number[]): number[] =>
    values.map((value, round) => value / (rates.bare[round] ?? Number.NaN));
  const guarded = by(rates.guarded);
  const label = `${what}: guarded to bare (${spread(guarded)})`;
  const row = { what: label, measured: shown(median(guarded)) };
  const bare = {
    what: `${what}: bare transaction`,
    measured: `${Math.round(median(rates.bare) * each)} /s`,
  };
  const rows = [bare, target === undefined ? row : atLeast(label, median(guarded), target, shown)];
  if (rates.protected === undefined) return rows;
  const closed = by(rates.protected);
  return [
    ...rows,
    {
      what: `${what}: guarded, in a protected table (${spread(closed)})`,
      measured: shown(median(closed)),
    },
  ];
}
