// Goal: on PostgreSQL the invariants hold under every fault. Method: real processes, a real server, recorded histories.
import { startPostgres } from "../servers/postgres.ts";
import { postgresRequests } from "../servers/requests.ts";
import { usualTiming } from "../support/faults/fault-engine.ts";
import { allFaults } from "./all-faults.ts";

allFaults({
  name: "postgres",
  // As it comes it keeps every commit; the settings only make room for connections and a restart quick.
  start: () => startPostgres({ settings: { max_connections: "200" } }),
  libraries: ["pg", "postgres"],
  lagMs: 0,
  timing: usualTiming,
  counted: {
    start: () => startPostgres({ settings: { max_connections: "300", log_statement: "all" } }),
    requests: postgresRequests,
    // The renewal; a look and a heartbeat every half minute; the first two in the queue ask more.
    perRenewal: 1.5,
  },
});
