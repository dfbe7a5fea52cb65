// Goal: every list of texts survives as a value of a statement. Method: properties, against a reader of that form.

import fc from "fast-check";
import { expect, test } from "vitest";
import { listOf } from "./lists.ts";

test("a list is written so that no text can end it", () => {
  expect(listOf([])).toBe("{}");
  expect(listOf(["a", 'b"c', "d\\e", "{f},g", "", "null"])).toBe(
    '{"a","b\\"c","d\\\\e","{f},g","","null"}',
  );
  const read = (text: string): string[] =>
    [...text.matchAll(/"((?:[^"\\]|\\.)*)"/gs)].map(([, inner = ""]) =>
      inner.replaceAll(/\\(.)/gs, "$1"),
    );
  fc.assert(
    fc.property(fc.array(fc.string()), (texts) => {
      expect(read(listOf(texts))).toEqual(texts);
    }),
  );
});
