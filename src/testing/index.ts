// The public entry `tenure/testing`: conformance suites for authors of stores and guards, and a
// clock that tests move by hand.

export type { GuardHarness, GuardInSuite, GuardUnderTest } from "./guard-suite/harness.ts";
export { guardSuite } from "./guard-suite.ts";
export { ManualClock, manualRandom } from "./manual-clock.ts";
export type { Runner, StoreHarness, StoreUnderTest, TestBody } from "./store-suite/harness.ts";
export { storeSuite } from "./store-suite.ts";
