// For authors of stores and for tests without waiting: the conformance suite and a clock that stands still.

export { ManualClock, manualRandom } from "./manual-clock.ts";
export type { Runner, StoreHarness, StoreUnderTest, TestBody } from "./store-suite/harness.ts";
export { storeSuite } from "./store-suite.ts";
