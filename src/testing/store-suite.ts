// The conformance suite for stores: tests of what every store must do. Their names begin with the
// number of the invariant. It runs on any store and with any test runner.

import { ambiguity, durability } from "./store-suite/durability.ts";
import { tokensAfter } from "./store-suite/eras.ts";
import { grants } from "./store-suite/grants.ts";
import { handoff, quietWaiters } from "./store-suite/handoff.ts";
import { Bench, type Runner, type StoreUnderTest } from "./store-suite/harness.ts";
import { reading } from "./store-suite/reading.ts";
import { releases } from "./store-suite/releases.ts";
import { revocations } from "./store-suite/revocations.ts";
import { sessions } from "./store-suite/sessions.ts";
import { order, waiting } from "./store-suite/waiting.ts";

type Topic = Record<string, (bench: Bench, skip: (reason: string) => never) => Promise<void>>;

/** Declares all tests. A test that does not apply to the store is skipped with a reason. */
export function storeSuite(runner: Runner, subject: StoreUnderTest): void {
  const topics: Record<string, Topic> = {
    grants,
    sessions,
    revocations,
    releases,
    waiting,
    handoff,
    reading,
    ambiguity,
    durability,
  };
  runner.describe(`${subject.name} keeps the store contract`, () => {
    for (const [topic, tests] of Object.entries(topics)) declare(runner, subject, topic, tests);
    if (subject.guarantees.fifo) declare(runner, subject, "order", order);
    if (subject.skipsQuiet !== false) declare(runner, subject, "quiet waiters", quietWaiters);
    declare(runner, subject, "eras", eras(subject));
    runner.test("the guarantees of the store are those given to the suite", async () => {
      await withBench(subject, async (bench) => {
        const { guarantees } = await bench.store();
        for (const name of ["fifo", "durable"] as const) {
          if (guarantees[name] !== subject.guarantees[name])
            throw new Error(`guarantees.${name} of the store is not what the suite was given`);
        }
      });
    });
  });
}

/**
 * One test for each way in which the backend can lose its data. Such a loss starts a new era, whose
 * tokens must be above all earlier ones.
 */
function eras({ forgets = [] }: StoreUnderTest): Topic {
  const tests = forgets.map((way): [string, Topic[string]] => [
    `S1: after ${way}, tokens increase, holders learn of lost leases, and waiters are served`,
    async (bench) => {
      const prepare = bench.harness.forgetting?.[way];
      if (prepare === undefined)
        throw new Error(`The harness has no entry in \`forgetting\` for: ${way}.`);
      await tokensAfter(bench, prepare);
    },
  ]);
  if (tests.length > 0) return Object.fromEntries(tests);
  return {
    "S1: tokens increase after the backend has lost its data": async (_bench, skip) =>
      skip("the suite was given no way to make this backend lose its data"),
  };
}

function declare(runner: Runner, subject: StoreUnderTest, topic: string, tests: Topic): void {
  runner.describe(topic, () => {
    for (const [name, body] of Object.entries(tests)) {
      runner.test(name, (skip) => withBench(subject, (bench) => body(bench, skip)));
    }
  });
}

async function withBench(
  subject: StoreUnderTest,
  body: (bench: Bench) => Promise<void>,
): Promise<void> {
  const bench = new Bench(await subject.create(), subject.ttlMs);
  try {
    await body(bench);
  } finally {
    await bench.close();
  }
}
