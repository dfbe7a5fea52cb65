// One schema of a PostgreSQL server as a backend of the conformance suite, reached directly or through a pooler.

import { setTimeout as sleep } from "node:timers/promises";
import { systemParts } from "../../src/runtime/system.ts";
import { type PostgresOptions, postgresStore } from "../../src/stores/postgres.ts";
import type { Store } from "../../src/stores/store.ts";
import type { StoreHarness } from "../../src/testing/index.ts";
import type { PostgresServer } from "../servers/postgres.ts";

let schemas = 0;

/** `how` says by which client and address; a schema of its own is added. */
export function postgresHarness(server: PostgresServer, how: PostgresOptions): StoreHarness {
  schemas += 1;
  const schema = `suite_${schemas}`;
  const opened: Store[] = [];
  const open = async (): Promise<Store> => {
    const store = await postgresStore({ ...how, schema })(systemParts());
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
    },
    deleteRows: async (resource) => {
      await server.sql(`DELETE FROM ${schema}.lease WHERE resource = '${resource}'`);
    },
    setToken: async (resource, token) => {
      await (await open()).close();
      // The era first: one that starts later would start above this token by a gap.
      await server.sql(
        `SELECT ${schema}.current_floor();
         INSERT INTO ${schema}.lease (resource, token, attempt, record, freed) VALUES ('${resource}', ${token}, 'none', '', '-infinity')`,
      );
    },
    close: async () => {
      for (const store of opened) await store.close();
    },
  };
}
