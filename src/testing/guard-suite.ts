// The conformance suite for guards: tests of what every guard must do (S2). Their names begin with
// the number of the invariant. It runs on any guard and with any test runner.

import {
  type GuardBench,
  type GuardTopic,
  type GuardUnderTest,
  RESOURCE,
} from "./guard-suite/harness.ts";
import { order } from "./guard-suite/order.ts";
import { sources } from "./guard-suite/sources.ts";
import type { Runner } from "./store-suite/harness.ts";

/** Declares all tests. A test that does not apply to the guard is skipped with a reason. */
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
    await body({
      rollsBack: subject.rollsBack,
      restart: harness.restart,
      open: async (options) => harness.open(options),
      written: async (resource = RESOURCE) => harness.written(resource),
    });
  } finally {
    await harness.close();
  }
}
