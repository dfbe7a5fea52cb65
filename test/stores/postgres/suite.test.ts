// The PostgreSQL store against the conformance suite, on a real server, through both client libraries.

import { storeSuite } from "../../../src/testing/index.ts";
import { startPostgres } from "../../servers/postgres.ts";
import { useServer } from "../../servers/use-server.ts";
import { postgresForgets, postgresHarness } from "../../support/stores/postgres-harness.ts";
import { onSharedServer } from "../../support/stores/store-runner.ts";

const postgres = useServer(startPostgres, {
  // After a crash the server flushes its whole folder; file by file that takes seconds on a busy disk.
  settings: { max_connections: "500" },
});

for (const library of ["pg", "postgres"] as const) {
  storeSuite(onSharedServer, {
    name: `postgres through ${library}`,
    // Fifty grants in a row have to fit into it, each with a flush, on a busy machine too.
    ttlMs: 1_500,
    guarantees: { fifo: true, durable: true },
    forgets: postgresForgets,
    create: async () => postgresHarness(postgres(), { url: postgres().url, library }),
  });
}
