// Goal: on PostgreSQL the invariants hold under every fault. Method: real processes, a real server, recorded histories.
import { startPostgres } from "../servers/postgres.ts";
import { faultTests, usualTiming } from "../support/fault-engine.ts";
import { holderFaults } from "./holder-faults.ts";
import { linkFaults } from "./link-faults.ts";
import { storeFaults } from "./store-faults.ts";

const engine = {
  name: "postgres",
  // As it comes it keeps every commit; the settings only make room for connections and a restart quick.
  start: () =>
    startPostgres({ settings: { max_connections: "200", recovery_init_sync_method: "syncfs" } }),
  libraries: ["pg", "postgres"],
  lagMs: 0,
  timing: usualTiming,
} as const;

const tests = faultTests(engine);
holderFaults(engine, tests);
linkFaults(engine, tests);
storeFaults(engine, tests);
