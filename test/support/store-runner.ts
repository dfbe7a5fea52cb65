// Hands vitest to the public conformance suite, which knows no test runner. A few tests run at a time: each has a
// backend of its own, and most of their time is waiting for a ttl that is long enough for a busy machine.

import { describe, test } from "vitest";
import type { Runner } from "../../src/testing/index.ts";

export const vitestRunner: Runner = {
  describe: (name, body) => {
    describe(name, body);
  },
  test: (name, body) => {
    test.concurrent(name, (context) => body((reason) => context.skip(reason)));
  },
};
