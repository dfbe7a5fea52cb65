// One schema of a PostgreSQL server as a backend for the conformance suite, reached directly or
// through a connection pooler.

import { setTimeout as sleep } from "node:timers/promises";
import pg from "pg";
import { systemParts } from "../../../src/runtime/system.ts";
import type { Store } from "../../../src/stores/contract.ts";
import { type PostgresOptions, postgresStore } from "../../../src/stores/postgres/index.ts";
import type { StoreHarness } from "../../../src/testing/index.ts";
import { until } from "../../servers/ask.ts";
import type { PostgresServer } from "../../servers/postgres.ts";

let schemas = 0;

/** The keys of `forgetting` in the harness. */
export const postgresForgets: readonly string[] = [
  "the schema was dropped",
  "rows were deleted",
  "the tables were truncated",
  "an older dump was restored",
];

/** `how` selects the client library and the address; the schema is added here. */
export function postgresHarness(server: PostgresServer, how: PostgresOptions): StoreHarness {
  schemas += 1;
  const schema = `suite_${schemas}`;
  const opened: Store[] = [];
  const sql = async (text: string): Promise<void> => {
    await server.sql(text);
  };
  const open = async (): Promise<Store> => {
    const store = await postgresStore({ ...how, prefix: schema })(systemParts());
    opened.push(store);
    return store;
  };
  return {
    open,
    sleep: (ms) => sleep(ms),
    now: () => performance.now(),
    restart: async () => {
      await server.kill();
      await server.start();
      // A pooler may have failed to log in during the restart, and rejects clients for a second.
      await until("the address of the store answers", () => answers(how.url), 10_000);
    },
    forgetting: {
      "the schema was dropped": async () => () => dropSchema(server, schema),
      "rows were deleted": async () => () => sql(`DELETE FROM ${schema}.lease`),
      "the tables were truncated": async () => () =>
        sql(`TRUNCATE ${schema}.lease, ${schema}.era, ${schema}.session`),
      "an older dump was restored": async () => {
        await sql(`CREATE SCHEMA ${schema}_old;
          CREATE TABLE ${schema}_old.lease AS TABLE ${schema}.lease; CREATE TABLE ${schema}_old.era AS TABLE ${schema}.era;
          CREATE TABLE ${schema}_old.session AS TABLE ${schema}.session`);
        return () =>
          // Like a restore: triggers do not run, and another server process starts, which the
          // changed server name simulates.
          sql(`SET session_replication_role = replica;
            DELETE FROM ${schema}.lease; INSERT INTO ${schema}.lease SELECT * FROM ${schema}_old.lease;
            DELETE FROM ${schema}.session; INSERT INTO ${schema}.session SELECT * FROM ${schema}_old.session;
            DELETE FROM ${schema}.era; INSERT INTO ${schema}.era SELECT only_row, 'another process', floor FROM ${schema}_old.era`);
      },
    },
    deleteRows: async (resource) => {
      await server.sql(`DELETE FROM ${schema}.lease WHERE resource = '${resource}'`);
    },
    setToken: async (resource, token) => {
      await (await open()).close();
      // The era must exist first: an era that started later would start a gap above this token.
      await server.sql(
        `SELECT ${schema}.current_floor();
         INSERT INTO ${schema}.lease (resource, token, attempt, record) VALUES ('${resource}', ${token}, 'none', '')`,
      );
    },
    close: async () => {
      for (const store of opened) await store.close();
    },
  };
}

async function answers(url: string | undefined): Promise<boolean> {
  const client = new pg.Client({ connectionString: url });
  client.on("error", () => undefined);
  try {
    await client.connect();
    await client.query("SELECT 1");
    return true;
  } catch {
    return false;
  } finally {
    await client.end().catch(() => undefined);
  }
}

/**
 * PostgreSQL locks the tables of a schema one by one to drop it, and cancels the command if a
 * request of a store needs them in another order.
 */
export async function dropSchema(server: PostgresServer, schema: string): Promise<void> {
  for (;;) {
    try {
      await server.sql(`DROP SCHEMA ${schema} CASCADE`);
      return;
    } catch (error) {
      if (!String(error).includes("deadlock detected")) throw error;
    }
  }
}
