// Goal: no planted bug goes stale: the code that it changes is there, once, and so is the test that
// shall hold the line. Method: look for each in the files.
import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { MUTANTS } from "../mutants/list.ts";

const root = new URL("../..", import.meta.url);

test.each(MUTANTS)("$name", ({ file, find, replace, test: judge }) => {
  const text = readFileSync(new URL(file, root), "utf8");
  expect(text.split(find)).toHaveLength(2);
  expect(replace).not.toBe(find);
  expect(judge === undefined || existsSync(new URL(judge, root))).toBe(true);
});

test("names are unique", () => {
  expect(new Set(MUTANTS.map(({ name }) => name)).size).toBe(MUTANTS.length);
});
