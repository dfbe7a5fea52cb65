// Goal: the reporter shows how far a run is, and a developer can copy the command that reproduces a
// failure. Method: a nested vitest run over a file with titles that a shell or a regular expression
// could misread.
import { execFileSync } from "node:child_process";
import { expect, test } from "vitest";
import { nestedVitest } from "../support/repo/nested-vitest.ts";

const run = nestedVitest(`
import { describe, expect, test } from "vitest";
test("passes", () => expect(1).toBe(1));
describe("it's (odd)", () => {
  test("fails: $HOME [a|b] 100% of \\"all\\" *times*?", () => expect(1).toBe(2));
  test("fails too", () => expect(1).toBe(2));
});
`);

/** The words of the printed command as a shell reads them, after "npm test --". */
function splitWords(line: string): string[] {
  const script = `for word in ${line.replace(/^to reproduce: npm test -- /, "")}; do printf '%s\\0' "$word"; done`;
  return execFileSync("sh", ["-c", script], { encoding: "utf8" }).split("\0").slice(0, -1);
}

test("a finished file is printed with the progress of the run", async () => {
  const { output, files } = await run();
  expect(output).toMatch(/^FAIL +\d+ s +1\/1 .*made\.test\.ts: 1 passed, 2 failed \(/m);
  expect(files).toEqual([{ name: "made.test.ts", durationMs: expect.any(Number) }]);
});

test("a failure is printed with a command that runs that one test, and with the load of the machine", async () => {
  const { output } = await run();
  const lines = output.split("\n").filter((line) => line.startsWith("to reproduce: "));
  expect(lines).toHaveLength(2);
  expect(output).toMatch(
    /\(Node \d+\.\d+\.\d+, \d+ cores, load [\d. ]+ over 1, 5 and 15 minutes\)/,
  );
  const words = splitWords(lines[0] ?? "");
  expect(words).toEqual(["made.test.ts", "-t", expect.any(String)]);
  expect(await run(words)).toMatchObject({ passed: 0, failed: 1 });
});
