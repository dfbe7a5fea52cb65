// Hands vitest to the public conformance suite, which knows no test runner. A few tests run at a time: most of their time
// is waiting for a ttl that is long enough for a busy machine.

import { describe, test } from "vitest";
import type { Runner } from "../../../src/testing/index.ts";

/** For backends that each test makes for itself. */
export const sideBySide: Runner = runner(() => true);
/** For tests that share more than a server, such as what is ended behind each of them. */
export const oneByOne: Runner = runner(() => false);
/** For a server that the tests share: those that restart it run alone. */
export const onSharedServer: Runner = runner((name) => !name.includes("restart"));

function runner(mayRunBesideOthers: (name: string) => boolean): Runner {
  return {
    describe: (name, body) => {
      describe(name, body);
    },
    test: (name, body) => {
      const declare = mayRunBesideOthers(name) ? test.concurrent : test;
      declare(name, (context) => body((reason) => context.skip(reason)));
    },
  };
}
