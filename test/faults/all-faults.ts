// Every fault, declared for one engine.

import type { RunningServer } from "../servers/server.ts";
import { type FaultEngine, faultTests } from "../support/faults/fault-engine.ts";
import { electionCrowd } from "./election-crowd.ts";
import { electionFaults } from "./election-faults.ts";
import { holderFaults } from "./holder-faults.ts";
import { linkFaults } from "./link-faults.ts";
import { storeFaults } from "./store-faults.ts";

export function allFaults<S extends RunningServer>(engine: FaultEngine<S>): void {
  const tests = faultTests(engine);
  holderFaults(engine, tests, "holder");
  linkFaults(engine, tests);
  storeFaults(engine, tests);
  holderFaults(engine, tests, "leader");
  electionFaults(engine, tests);
  electionCrowd(engine, tests);
}
