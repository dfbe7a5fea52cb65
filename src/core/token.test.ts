// Goal: no token is rounded, misread or misordered when it is converted to text and back. Method:
// random bigints over the whole range, drawn by their number of bits so that small and large ones
// are equally likely, and a list of texts that must be rejected.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { InvalidArgumentError } from "./errors.ts";
import {
  admits,
  checkToken,
  formatToken,
  isToken,
  padToken,
  parseToken,
  TOKEN_LIMIT,
} from "./token.ts";

const token = fc
  .integer({ min: 1, max: 127 })
  .chain((bits) => fc.bigInt({ min: 2n ** BigInt(bits - 1), max: 2n ** BigInt(bits) - 1n }));

describe("tokens as text", () => {
  test("a token is read from its decimal digits unchanged, also with leading zeros", () => {
    fc.assert(
      fc.property(token, (value) => {
        expect(parseToken(formatToken(value))).toBe(value);
        expect(parseToken(padToken(value))).toBe(value);
        expect(formatToken(value)).toBe(value.toString());
      }),
    );
  });

  test("S1: padded tokens sort as text in the order of the numbers", () => {
    fc.assert(
      fc.property(token, token, (one, other) => {
        const [left, right] = [padToken(one), padToken(other)];
        expect(left < right).toBe(one < other);
        expect(left === right).toBe(one === other);
        expect(left).toHaveLength(39);
      }),
    );
  });

  test("adjacent tokens above 2^53 and 2^63 stay distinct", () => {
    for (const near of [2n ** 53n, 2n ** 63n, 2n ** 64n, TOKEN_LIMIT - 2n]) {
      expect(parseToken(formatToken(near + 1n)) - parseToken(formatToken(near))).toBe(1n);
    }
  });

  test.each([
    "",
    "0",
    "000",
    "-1",
    "+1",
    " 1",
    "1 ",
    "1\n",
    "1.0",
    "1e3",
    "0x10",
    "1_000",
    "1n",
    "١",
    TOKEN_LIMIT.toString(),
    "9".repeat(39),
    "1".padStart(40, "0"),
    "1".repeat(10_000),
  ])("the text %j is rejected", (text) => {
    expect(() => parseToken(text)).toThrow(InvalidArgumentError);
  });

  test("only decimal digits in range are accepted", () => {
    fc.assert(
      fc.property(
        fc.oneof(fc.string(), fc.string({ unit: fc.constantFrom(..."0123456789 -.e") })),
        (text) => {
          const fits =
            /^[0-9]{1,39}$/.test(text) && BigInt(text) > 0n && BigInt(text) < TOKEN_LIMIT;
          if (fits) expect(parseToken(text)).toBe(BigInt(text));
          else expect(() => parseToken(text)).toThrow(InvalidArgumentError);
        },
      ),
    );
  });

  test("a long text is truncated in the error", () => {
    expect(() => parseToken("x".repeat(10_000))).toThrow(/^.{1,160}$/);
  });
});

describe("tokens as values", () => {
  test.each([0n, -1n, TOKEN_LIMIT, TOKEN_LIMIT * 2n, 1, 1.5, "1", null, undefined, {}, true])(
    "%s is not a token",
    (value) => {
      expect(isToken(value)).toBe(false);
      expect(() => checkToken(value)).toThrow(InvalidArgumentError);
      expect(() => checkToken(value)).toThrow("Pass lease.token as it is; never a number");
      expect(() => formatToken(value as bigint)).toThrow(InvalidArgumentError);
      expect(() => padToken(value as bigint)).toThrow(InvalidArgumentError);
    },
  );

  test("the smallest and the largest token are accepted", () => {
    for (const value of [1n, TOKEN_LIMIT - 1n]) expect(checkToken(value)).toBe(value);
  });
});

describe("admits()", () => {
  test("S2: the first token and an equal or higher one are admitted, a lower one is not", () => {
    fc.assert(
      fc.property(token, token, (highest, offered) => {
        expect(admits(highest, offered)).toBe(offered >= highest);
        expect(admits(highest, highest)).toBe(true);
        expect(admits(highest, highest + 1n)).toBe(true);
        expect(admits(highest, highest - 1n)).toBe(false);
        expect(admits(undefined, offered)).toBe(true);
      }),
    );
  });
});
