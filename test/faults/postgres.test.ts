// Goal: the invariants hold on PostgreSQL under every fault. Method: real processes, a real server,
// and recorded histories.
import { startPostgres } from "../servers/postgres.ts";
import { postgresRequests } from "../servers/requests.ts";
import { usualTiming } from "../support/faults/fault-engine.ts";
import { testAllFaults } from "./all-faults.ts";

testAllFaults({
  name: "postgres",
  // PostgreSQL persists every commit by default; the setting only allows enough connections.
  start: () => startPostgres({ settings: { max_connections: "200" } }),
  libraries: ["pg", "postgres"],
  lagMs: 0,
  timing: usualTiming,
  counted: {
    start: () => startPostgres({ settings: { max_connections: "300", log_statement: "all" } }),
    requests: postgresRequests,
    // The renewal, and a heartbeat every half minute. The first two in the queue check the holder.
    perRenewal: 1.5,
  },
});
