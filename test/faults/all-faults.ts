// Declares the tests of every fault for one engine.

import type { RunningServer } from "../servers/server.ts";
import { declareFaultTests, type FaultEngine } from "../support/faults/fault-engine.ts";
import { testElectionCrowd } from "./election-crowd.ts";
import { testElectionFaults } from "./election-faults.ts";
import { testHolderFaults } from "./holder-faults.ts";
import { testLinkFaults } from "./link-faults.ts";
import { testStoreFaults } from "./store-faults.ts";

export function testAllFaults<S extends RunningServer>(engine: FaultEngine<S>): void {
  const tests = declareFaultTests(engine);
  testHolderFaults(engine, tests, "holder");
  testLinkFaults(engine, tests);
  testStoreFaults(engine, tests);
  testHolderFaults(engine, tests, "leader");
  testElectionFaults(engine, tests);
  testElectionCrowd(engine, tests);
}
