// The conformance suite for guards: what every guard must do (S2), as tests with the invariants' numbers in their
// names. Run it on a guard of your own with the test runner that you use.

import { GuardBench, type GuardTopic, type GuardUnderTest } from "./guard-suite/harness.ts";
import { order } from "./guard-suite/order.ts";
import { sources } from "./guard-suite/sources.ts";
import type { Runner } from "./store-suite/harness.ts";

/** Declares all tests. A test that the guard cannot take part in is skipped with a reason, never passed in silence. */
export function guardSuite(runner: Runner, subject: GuardUnderTest): void {
  const topics: Record<string, GuardTopic> = { order, sources };
  runner.describe(`the ${subject.name} guard keeps the rule`, () => {
    for (const [topic, tests] of Object.entries(topics)) {
      runner.describe(topic, () => {
        for (const [name, body] of Object.entries(tests)) {
          runner.test(name, (skip) => withBench(subject, (bench) => body(bench, skip)));
        }
      });
    }
  });
}

async function withBench(
  subject: GuardUnderTest,
  body: (bench: GuardBench) => Promise<void>,
): Promise<void> {
  const harness = await subject.create();
  try {
    await body(new GuardBench(harness, subject.rollsBack));
  } finally {
    await harness.close();
  }
}
