// Goal: S1 in one process: a token that is not larger is rejected, for the last ten thousand
// resources. Method: random tokens against the plain rule, and more resources than are remembered.
import fc from "fast-check";
import { expect, test } from "vitest";
import { TokenRegressionError } from "../core/errors.ts";
import { TokenMemory } from "./token-memory.ts";

test("S1: a token is accepted if and only if it is above all accepted before it", () => {
  fc.assert(
    fc.property(fc.array(fc.bigInt({ min: 1n, max: 20n }), { maxLength: 30 }), (tokens) => {
      const memory = new TokenMemory();
      let highest = 0n;
      for (const token of tokens) {
        if (token > highest) {
          memory.accept("a", token);
          highest = token;
        } else {
          expect(() => memory.accept("a", token)).toThrow(TokenRegressionError);
        }
      }
    }),
  );
});

test("the error has the offered and the highest token", () => {
  const memory = new TokenMemory();
  memory.accept("a", 2n ** 100n);
  expect(() => memory.accept("a", 7n)).toThrow(
    expect.objectContaining({ offered: 7n, highest: 2n ** 100n, resource: "a" }),
  );
});

test("a late report of an earlier grant has ended, and the same token twice is a regression", () => {
  const memory = new TokenMemory();
  const before = memory.highest("a");
  expect(memory.accept("a", 8n, before)).toBe(true);
  expect(memory.accept("a", 7n, before)).toBe(false);
  expect(() => memory.accept("a", 8n, before)).toThrow(TokenRegressionError);
  expect(() => memory.accept("a", 7n, 7n)).toThrow(TokenRegressionError);
  expect(memory.highest("a")).toBe(8n);
});

test("each resource has its own highest token", () => {
  const memory = new TokenMemory();
  memory.accept("a", 9n);
  memory.accept("b", 1n);
});

test("it remembers the ten thousand resources used last", () => {
  const memory = new TokenMemory();
  for (let row = 0; row < 10_000; row += 1) memory.accept(`row/${row}`, 5n);
  memory.accept("row/0", 6n);
  memory.accept("one more", 1n);
  expect(() => memory.accept("row/0", 6n)).toThrow(TokenRegressionError);
  expect(() => memory.accept("row/2", 5n)).toThrow(TokenRegressionError);
  // The least recently used one was dropped.
  memory.accept("row/1", 1n);
});
