// Connects vitest to the public conformance suite, which depends on no test runner. Where possible,
// tests run concurrently, because most of their time is spent waiting for a ttl to pass.

import { describe, test } from "vitest";
import type { Runner } from "../../../src/testing/index.ts";

/** For suites in which each test creates its own backend. */
export const sideBySide: Runner = runner(() => true);
/** For suites whose tests share more than a server, such as a cleanup after each test. */
export const oneByOne: Runner = runner(() => false);
/** For suites whose tests share a server: the tests that restart it run alone. */
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
