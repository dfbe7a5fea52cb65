// Runs the conformance suite on the PostgreSQL store, on a real server, through both client
// libraries.

import { storeSuite } from "../../../src/testing/index.ts";
import { startPostgres } from "../../servers/postgres.ts";
import { useServer } from "../../servers/use-server.ts";
import { postgresForgets, postgresHarness } from "../../support/stores/postgres-harness.ts";
import { onSharedServer } from "../../support/stores/store-runner.ts";

const postgres = useServer(startPostgres, {
  // After a crash the server flushes its whole folder file by file, which takes seconds on a busy
  // disk.
  settings: { max_connections: "500" },
});

for (const library of ["pg", "postgres"] as const) {
  storeSuite(onSharedServer, {
    name: `postgres through ${library}`,
    // Long enough for fifty grants in a row, each with a flush to disk, even on a busy machine.
    ttlMs: 1_500,

    guarantees: { fifo: true, durable: true },
    forgets: postgresForgets,
    create: async () => postgresHarness(postgres(), { url: postgres().url, library }),
  });
}
