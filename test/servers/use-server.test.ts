// Goal: if a server cannot run, its tests are skipped with the reason, and TENURE_REQUIRE_ENGINES=1
// turns those skips into failures. Method: a nested vitest run over a generated file, with the
// reporter of this repository.
import { expect, test } from "vitest";
import { nestedVitest } from "../support/repo/nested-vitest.ts";

const FILE = `
import { describe, expect, test } from "vitest";
import { CannotRunError, MissingEngineError } from "../test/servers/engine.ts";
import { useServer } from "../test/servers/use-server.ts";

let ended = 0;
const fake = (name) => ({ name, [Symbol.asyncDispose]: async () => void (ended += 1) });
const missing = async () => { throw new MissingEngineError("redis", "no apt-get"); };
const given = async () => { throw new CannotRunError("TENURE_TEST_REDIS names a server"); };

describe("missing", () => {
  useServer(missing);
  test("one", () => expect.unreachable());
  test("two", () => expect.unreachable());
});
describe("given", () => {
  useServer(given);
  test("three", () => expect.unreachable());
});
describe("there", () => {
  const first = useServer(async () => fake("first"));
  const second = useServer(async (options) => fake(options.name), { name: "second" });
  test("four", () => expect([first().name, second().name, ended]).toEqual(["first", "second", 0]));
});
test("five", () => expect(ended).toBe(2));
describe("broken", () => {
  const broken = useServer(async () => { throw new Error("it crashed"); });
  test("six", () => broken());
});
`;

const runFile = nestedVitest(FILE);

test("tests of a server that cannot run are skipped with the reason; other start errors fail", async () => {
  const { passed, failed, skipped } = await runFile();
  expect(skipped.map(({ reason }) => reason)).toEqual([
    "missing engine redis: no apt-get",
    "missing engine redis: no apt-get",
    "TENURE_TEST_REDIS names a server",
  ]);
  expect(passed).toBe(2);
  expect(failed).toBeGreaterThanOrEqual(1);

  // If every engine is required, a missing one is a failure.
  const strict = await runFile([], { TENURE_REQUIRE_ENGINES: "1" });
  expect(strict.failed).toBe(failed + 2);
  expect(strict.skipped.map(({ reason }) => reason)).toEqual(["TENURE_TEST_REDIS names a server"]);
});
