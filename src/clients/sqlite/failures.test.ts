// Goal: an error that is not SQLite's own is distinguished from damage to the file. Method: errors
// as the libraries throw them.
import { expect, test } from "vitest";
import { StoreUnusableError } from "../../core/errors.ts";
import { failure } from "./failures.ts";

test("S8: a number that node:sqlite cannot read, because another program wrote it, makes the store unusable", () => {
  const error = Object.assign(new RangeError("Value is too large to be represented"), {
    code: "ERR_OUT_OF_RANGE",
  });
  expect(failure(error, "tenure.db")).toBeInstanceOf(StoreUnusableError);
});

test("any other error stays what it is", () => {
  const error = new TypeError("a mistake of ours");
  expect(failure(error, "tenure.db")).toBe(error);
  expect(failure(undefined, "tenure.db")).toBeInstanceOf(Error);
});
