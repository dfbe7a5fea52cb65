// Hands vitest to the public conformance suite, which knows no test runner. Where each test has a backend of its own, a
// few run at a time: most of their time is waiting for a ttl that is long enough for a busy machine.

import { describe, test } from "vitest";
import type { Runner } from "../../src/testing/index.ts";

/** One test at a time: for backends that tests share and restart. */
export const oneByOne: Runner = runner(test);
/** A few at a time: for backends that each test makes for itself. */
export const sideBySide: Runner = runner(test.concurrent);

function runner(declare: typeof test.concurrent): Runner {
  return {
    describe: (name, body) => {
      describe(name, body);
    },
    test: (name, body) => {
      declare(name, (context) => body((reason) => context.skip(reason)));
    },
  };
}
