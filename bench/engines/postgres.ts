// PostgreSQL, through both libraries, against two durable upserts over the same pool. Its advisory locks stand beside for
// information: they cost no disk write, and have neither a ttl nor a token.

import pg from "pg";
import postgres from "postgres";
import { postgresStore } from "tenure/stores/postgres";
import { startPostgres } from "../../test/servers/postgres.ts";
import { NO_TTL } from "../compare/entrants.ts";
import type { BenchServer, EngineBench } from "./engine.ts";

const POOL_MAX = 10;
const TABLE = `CREATE TABLE IF NOT EXISTS floor_lock (resource text PRIMARY KEY, holder text, token bigint, expires timestamptz)
  WITH (fillfactor = 50)`;
const UPSERT = `INSERT INTO floor_lock AS f VALUES ($1, $2, 1, now()) ON CONFLICT (resource)
  DO UPDATE SET holder = excluded.holder, token = f.token + 1, expires = excluded.expires RETURNING token`;

interface Server extends BenchServer {
  readonly pool: pg.Pool;
  readonly sql: postgres.Sql;
}

async function start(): Promise<Server> {
  const server = await startPostgres({ settings: { track_functions: "pl" } });
  const pool = new pg.Pool({ connectionString: server.url, max: POOL_MAX });
  const sql = postgres(server.url, { max: POOL_MAX, onnotice: () => undefined });
  await pool.query(TABLE);
  return {
    url: server.url,
    pool,
    sql,
    requests: async () => {
      const calls =
        "SELECT coalesce(sum(calls), 0) FROM pg_stat_user_functions WHERE funcname = 'renew'";
      return Number(await server.sql(calls));
    },
    [Symbol.asyncDispose]: async () => {
      await pool.end();
      await sql.end();
      await server[Symbol.asyncDispose]();
    },
  };
}

export const pgBench: EngineBench<Server> = {
  name: "PostgreSQL (pg)",
  start,
  openStore: ({ pool }) => postgresStore({ client: pool }),
  openFloor: async ({ pool }) => ({
    // Named, as Tenure's are: parsed once a connection.
    pair: async (index) => {
      await pool.query({ name: "floor", text: UPSERT, values: [`lock ${index}`, "me"] });
      await pool.query({ name: "floor", text: UPSERT, values: [`lock ${index}`, ""] });
    },
    trip: async () => void (await pool.query({ name: "trip", text: "SELECT 1" })),
    close: async () => undefined,
  }),
  openPeers: async ({ pool }) => [
    {
      name: "advisory locks (no ttl, no token, no disk)",
      lacks: NO_TTL,
      pair: async (index) => {
        const client = await pool.connect();
        const values = [index];
        await client.query({ name: "lock", text: "SELECT pg_advisory_lock($1)", values });
        await client.query({ name: "unlock", text: "SELECT pg_advisory_unlock($1)", values });
        client.release();
      },
      close: async () => undefined,
    },
  ],
};

export const postgresJsBench: EngineBench<Server> = {
  name: "PostgreSQL (postgres.js)",
  start,
  openStore: ({ sql }) => postgresStore({ client: sql }),
  openFloor: async ({ sql }) => ({
    pair: async (index) => {
      await sql.unsafe(UPSERT, [`lock ${index}`, "me"], { prepare: true });
      await sql.unsafe(UPSERT, [`lock ${index}`, ""], { prepare: true });
    },
    trip: async () => void (await sql.unsafe("SELECT 1", [], { prepare: true })),
    close: async () => undefined,
  }),
  openPeers: async () => [],
  isWhole: false,
};
