// Every fault, declared for one engine.
import { type FaultEngine, faultTests } from "../support/fault-engine.ts";
import { holderFaults } from "./holder-faults.ts";
import { linkFaults } from "./link-faults.ts";
import { storeFaults } from "./store-faults.ts";

export function allFaults(engine: FaultEngine): void {
  const tests = faultTests(engine);
  holderFaults(engine, tests);
  linkFaults(engine, tests);
  storeFaults(engine, tests);
}
