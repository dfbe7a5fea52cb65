// Goal: every accepted name is the same text in every store. Method: random text, compared with a
// second version of the rule (bytes of UTF-8, no NUL, whole characters), and the limits of each
// part.
import { Buffer } from "node:buffer";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { InvalidArgumentError } from "./errors.ts";
import { checkPrefix, checkResource, RESOURCE_BYTES_MAX } from "./resource.ts";
import { utf8Length } from "./text.ts";

/** Any UTF-16 text, including halves of surrogate pairs and NUL. */
const anyText = fc
  .array(
    fc.oneof(
      { weight: 20, arbitrary: fc.integer({ min: 0x20, max: 0x24f }) },
      { weight: 2, arbitrary: fc.integer({ min: 0xd7f0, max: 0xe010 }) },
      { weight: 1, arbitrary: fc.constantFrom(0, 0xd83d, 0xde00) },
    ),
    { maxLength: 600 },
  )
  .map((units) => String.fromCharCode(...units));

/** Whole characters survive a round trip through UTF-8; half of a surrogate pair does not. */
function isWhole(text: string): boolean {
  return Buffer.from(text, "utf8").toString("utf8") === text;
}

function passes(text: string): boolean {
  return isWhole(text) && !text.includes("\0") && Buffer.byteLength(text) <= 512;
}

describe("resource names", () => {
  test("a name is accepted if and only if it is 1 to 512 bytes of valid UTF-8 without NUL", () => {
    fc.assert(
      fc.property(anyText, (text) => {
        if (text !== "" && passes(text)) expect(checkResource(text)).toBe(text);
        else expect(() => checkResource(text)).toThrow(InvalidArgumentError);
      }),
      { numRuns: 1_000 },
    );
  });

  test("the limit counts bytes, not characters", () => {
    expect(checkResource("x".repeat(RESOURCE_BYTES_MAX))).toHaveLength(512);
    expect(() => checkResource("x".repeat(513))).toThrow("has 513 bytes; at most 512 are allowed");
    expect(checkResource("é".repeat(256))).toHaveLength(256);
    expect(() => checkResource("é".repeat(257))).toThrow("has 514 bytes");
    expect(checkResource("😀".repeat(128))).toHaveLength(256);
    expect(() => checkResource("😀".repeat(129))).toThrow("Shorten or hash it");
  });

  test.each([
    ["an empty name", "", /empty string. Name what is protected/],
    ["a NUL character", "a\0b", /contains a NUL character. Remove it/],
    ["a lone high surrogate", "a\ud83d", /half of a surrogate pair.* Check where it was cut/],
    ["a lone low surrogate", "\ude00a", /half of a surrogate pair/],
    ["a pair in the wrong order", "\ude00\ud83d", /half of a surrogate pair/],
    ["a number", 7, /Expected a resource name \(a string\), got number/],
    ["undefined", undefined, /got undefined/],
  ])("%s is rejected, and the message says what to change", (_, name, message) => {
    expect(() => checkResource(name)).toThrow(InvalidArgumentError);
    expect(() => checkResource(name)).toThrow(message);
  });
});

describe("prefixes", () => {
  test("a prefix follows the same rules and may be empty", () => {
    fc.assert(
      fc.property(anyText, (text) => {
        if (passes(text)) expect(checkPrefix(text)).toBe(text);
        else expect(() => checkPrefix(text)).toThrow(/^The prefix /);
      }),
    );
    expect(checkPrefix("")).toBe("");
    expect(() => checkPrefix(null)).toThrow("Expected a prefix (a string), got object");
  });
});

test("utf8Length() is the number of bytes that a backend stores", () => {
  fc.assert(
    fc.property(fc.string({ unit: "binary" }), (text) => {
      expect(utf8Length(text)).toBe(Buffer.byteLength(text, "utf8"));
    }),
  );
});
