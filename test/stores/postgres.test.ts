// The PostgreSQL store against the conformance suite, on a real server, through both client libraries.

import { setTimeout as sleep } from "node:timers/promises";
import { systemParts } from "../../src/runtime/system.ts";
import { postgresStore } from "../../src/stores/postgres.ts";
import type { Store } from "../../src/stores/store.ts";
import { type StoreHarness, storeSuite } from "../../src/testing/index.ts";
import { startPostgres } from "../servers/postgres.ts";
import { useServer } from "../servers/use-server.ts";
import { onSharedServer } from "../support/store-runner.ts";

const postgres = useServer(startPostgres, {
  // After a crash the server flushes its whole folder; file by file that takes seconds on a busy disk.
  settings: { max_connections: "500", recovery_init_sync_method: "syncfs" },
});
let schemas = 0;

for (const library of ["pg", "postgres"] as const) {
  storeSuite(onSharedServer, {
    name: `postgres through ${library}`,
    // Fifty grants in a row have to fit into it, each with a flush, on a busy machine too.
    ttlMs: 1_500,
    guarantees: { fifo: true, durable: true },
    create: async () => harness(library),
  });
}

function harness(library: "pg" | "postgres"): StoreHarness {
  const server = postgres();
  schemas += 1;
  const schema = `suite_${schemas}`;
  const opened: Store[] = [];
  const open = async (): Promise<Store> => {
    const store = await postgresStore({ url: server.url, library, schema })(systemParts());
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
      await server.sql(
        `INSERT INTO ${schema}.lease (resource, token, attempt, record, freed) VALUES ('${resource}', ${token}, 'none', '', '-infinity')`,
      );
    },
    close: async () => {
      for (const store of opened) await store.close();
    },
  };
}
