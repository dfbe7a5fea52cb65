// Goal: on ZooKeeper the invariants hold under every fault. Method: real processes, a real server, recorded histories.
import { startZooKeeper } from "../servers/zookeeper.ts";
import { faultTests, usualTiming } from "../support/fault-engine.ts";
import { holderFaults } from "./holder-faults.ts";
import { linkFaults } from "./link-faults.ts";
import { storeFaults } from "./store-faults.ts";

const engine = {
  name: "zookeeper",
  // As it comes: every change is on disk before its answer.
  start: () => startZooKeeper({ own: true }),
  // Sessions end at the next tick; a server that started again gives every session its whole time anew.
  lagMs: 2_500,
  timing: usualTiming,
} as const;

const tests = faultTests(engine);
holderFaults(engine, tests);
linkFaults(engine, tests);
storeFaults(engine, tests);
