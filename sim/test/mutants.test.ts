// Goal: no planted bug is outdated: the code that it changes occurs exactly once, and its test file
// exists. Method: search the files.
import { existsSync, readFileSync } from "node:fs";
import { expect, test } from "vitest";
import { MUTANTS } from "../mutants/list.ts";

const root = new URL("../..", import.meta.url);

test.each(MUTANTS)("can be planted: $name", ({ file, find, replace, test: testFile }) => {
  const text = readFileSync(new URL(file, root), "utf8");
  expect(text.split(find)).toHaveLength(2);
  expect(replace).not.toBe(find);
  expect(testFile === undefined || existsSync(new URL(testFile, root))).toBe(true);
});

test("names of planted bugs are unique", () => {
  expect(new Set(MUTANTS.map(({ name }) => name)).size).toBe(MUTANTS.length);
});
