// The baseline of each engine: as many bare round trips (or durable commits) as a grant and a
// release need, through the same client library, without anything that makes a lease safe.

import { join } from "node:path";
import { Redis } from "ioredis";
import pg from "pg";
import postgres from "postgres";
import { createClient } from "redis";
import type { Txn } from "../src/clients/etcd/kv.ts";
import { openClient } from "../src/clients/etcd/open.ts";
import { checkEtcdOptions } from "../src/clients/etcd/options.ts";
import { range, txn } from "../src/clients/etcd/rpc.ts";
import { loadDriver } from "../src/clients/sqlite/driver.ts";
import { CREATE, create, exists, remove } from "../src/clients/zookeeper/messages.ts";
import { systemParts } from "../src/runtime/system.ts";
import { Console } from "../test/support/stores/zookeeper-nodes.ts";
import type { Engine } from "./servers.ts";
import { median } from "./statistics.ts";

export interface Baseline {
  /** Takes and frees lock number `index`. */
  pair(index: number): Promise<void>;
  /** Two bare writes that cost less than `pair`, where the engine has any. */
  plainPair?(index: number): Promise<void>;
  /** One bare round trip, or one durable commit. */
  trip(): Promise<void>;
  close(): Promise<void>;
}

const POOL_MAX = 10;
const LIMIT_MS = 5_000;
const LOCK = `if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', '10000') then return 1 end
return 0`;
const UNLOCK = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0`;
const TABLE = `CREATE TABLE IF NOT EXISTS baseline_lock (resource text PRIMARY KEY, holder text, token bigint, expires timestamptz)
  WITH (fillfactor = 50)`;
const UPSERT = `INSERT INTO baseline_lock AS b VALUES ($1, $2, 1, now()) ON CONFLICT (resource)
  DO UPDATE SET holder = excluded.holder, token = b.token + 1, expires = excluded.expires RETURNING token`;

/** By engine; the argument is the server's URL or, for SQLite, a folder. */
export const openBaseline: Readonly<Record<Engine, (url: string) => Promise<Baseline>>> = {
  sqlite: openSqlite,
  redis: openIoredis,
  postgres: openPg,
  etcd: openEtcd,
  zookeeper: openZooKeeper,
};

/** The median of a bare round trip. */
export async function measureTrip(baseline: Baseline): Promise<number> {
  const times: number[] = [];
  for (let trip = 0; trip < 250; trip += 1) times.push(await timeOf(() => baseline.trip()));
  // The first ones also measure the compiler.
  return median(times.slice(50));
}

export async function timeOf(act: () => Promise<unknown>): Promise<number> {
  const start = performance.now();
  await act();
  return performance.now() - start;
}

async function openSqlite(folder: string): Promise<Baseline> {
  const database = (await loadDriver()).open(join(folder, "baseline.db"));
  database.exec("PRAGMA journal_mode = WAL");
  database.exec("PRAGMA synchronous = FULL");
  database.exec(
    "CREATE TABLE IF NOT EXISTS lock (name TEXT PRIMARY KEY, holder TEXT, token INT) WITHOUT ROWID",
  );
  const upsert = database.prepare(
    "INSERT INTO lock VALUES (?, ?, 1) ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, token = token + 1",
  );
  return {
    pair: async (index) => {
      upsert.run(`lock ${index}`, "me");
      upsert.run(`lock ${index}`, "");
    },
    trip: async () => void upsert.run("trip", "me"),
    close: async () => database.close(),
  };
}

async function openIoredis(url: string): Promise<Baseline> {
  const client = new Redis(url);
  return openRedis(
    (...words) => client.call(...(words as [string])),
    () => client.disconnect(),
  );
}

export async function openNodeRedis(url: string): Promise<Baseline> {
  const client = createClient({ url });
  await client.connect();
  return openRedis(
    (...words) => client.sendCommand(words),
    () => client.destroy(),
  );
}

async function openRedis(
  send: (...words: string[]) => Promise<unknown>,
  close: () => void,
): Promise<Baseline> {
  const [lock, unlock] = [await send("script", "LOAD", LOCK), await send("script", "LOAD", UNLOCK)];
  let values = 0;
  return {
    pair: async (index) => {
      values += 1;
      const [key, value] = [`baseline/${index}`, `value ${values}`];
      const locked = await send("evalsha", String(lock), "1", key, value);
      const freed = await send("evalsha", String(unlock), "1", key, value);
      if (Number(locked) !== 1 || Number(freed) !== 1) throw new Error("the baseline did not lock");
    },
    plainPair: async (index) => {
      await send("set", `baseline/${index}`, "a holder");
      await send("set", `baseline/${index}`, "");
    },
    trip: async () => void (await send("ping")),
    close: async () => close(),
  };
}

async function openPg(url: string): Promise<Baseline> {
  const pool = new pg.Pool({ connectionString: url, max: POOL_MAX });
  await pool.query(TABLE);
  // Named, as Tenure's statements are: each connection parses them once.
  const upsert = (index: number, holder: string): Promise<unknown> =>
    pool.query({ name: "baseline", text: UPSERT, values: [`lock ${index}`, holder] });
  return {
    pair: async (index) => {
      await upsert(index, "me");
      await upsert(index, "");
    },
    trip: async () => void (await pool.query({ name: "trip", text: "SELECT 1" })),
    close: () => pool.end(),
  };
}

export async function openPostgresJs(url: string): Promise<Baseline> {
  const sql = postgres(url, { max: POOL_MAX, onnotice: () => undefined });
  await sql.unsafe(TABLE);
  const upsert = (index: number, holder: string): Promise<unknown> =>
    sql.unsafe(UPSERT, [`lock ${index}`, holder], { prepare: true });
  return {
    pair: async (index) => {
      await upsert(index, "me");
      await upsert(index, "");
    },
    trip: async () => void (await sql.unsafe("SELECT 1", [], { prepare: true })),
    close: () => sql.end(),
  };
}

async function openEtcd(url: string): Promise<Baseline> {
  const settings = checkEtcdOptions({ url, onWarning: () => undefined });
  const members = await openClient(settings, systemParts());
  const limits = { limitMs: LIMIT_MS };
  const value = Buffer.from("a holder");
  return {
    pair: async (index) => {
      const key = Buffer.from(`baseline/${index}`);
      const put: Txn = {
        when: [{ key, target: "create", is: "=", than: 0n }],
        yes: [{ put: { key, value, lease: 0n } }],
        no: [{ get: { key } }],
      };
      const { succeeded, header } = await members.call(txn, put, limits);
      const drop: Txn = {
        when: [{ key, target: "create", is: "=", than: header.revision }],
        yes: [{ remove: { key } }],
        no: [],
      };
      const freed = await members.call(txn, drop, limits);
      if (!succeeded || !freed.succeeded) throw new Error("the baseline did not lock");
    },
    trip: async () => void (await members.call(range, { key: Buffer.from("baseline") }, limits)),
    close: async () => members.close(),
  };
}

async function openZooKeeper(url: string): Promise<Baseline> {
  const { hostname: host, port } = new URL(url);
  const acl = { scheme: "world", id: "anyone" };
  const open = async (): Promise<Console> => Console.open({ host, port: Number(port) });
  let console = await open();
  await console.create("/baseline").catch(() => undefined);
  // The console sends no pings, so the server ends its session between two distant rounds.
  const send = async (message: Parameters<Console["send"]>[0]): Promise<void> => {
    if (console.wire.hasEnded) console = await open();
    await console.send(message);
  };
  return {
    pair: async (index) => {
      const path = `/baseline/${index}`;
      await send(create({ path, data: "a holder", acl, flags: CREATE.ephemeral }));
      await send(remove(path));
    },
    trip: () => send(exists("/baseline")),
    close: () => console[Symbol.asyncDispose](),
  };
}
