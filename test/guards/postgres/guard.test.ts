// The PostgreSQL guard against the conformance suite, on a real server, through both client
// libraries.

import { guardSuite } from "../../../src/testing/index.ts";
import { startPostgres } from "../../servers/postgres.ts";
import { useServer } from "../../servers/use-server.ts";
import { ledgerHarness } from "../../support/guards/postgres-guard-harness.ts";
import { onSharedServer } from "../../support/stores/store-runner.ts";

const postgres = useServer(startPostgres, {
  settings: { max_connections: "300" },
});

for (const library of ["pg", "postgres"] as const) {
  guardSuite(onSharedServer, {
    name: `postgres (through ${library})`,
    rollsBack: true,
    create: () => ledgerHarness(postgres(), library),
  });
}
