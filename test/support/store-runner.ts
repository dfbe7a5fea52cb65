// Hands vitest to the public conformance suite, which knows no test runner.

import { describe, test } from "vitest";
import type { Runner } from "../../src/testing/index.ts";

export const vitestRunner: Runner = {
  describe: (name, body) => {
    describe(name, body);
  },
  test: (name, body) => {
    test(name, (context) => body((reason) => context.skip(reason)));
  },
};
