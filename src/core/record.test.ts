// Goal: every process reads a record as it was written, and text from another program is rejected
// cleanly. Method: round trips of any JSON value; random text, random JSON and chosen malformed
// records.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { hostileText } from "../../test/support/stores/hostile.ts";
import { InvalidArgumentError, StoreUnusableError } from "./errors.ts";
import {
  checkHolderId,
  decodeNotices,
  decodeRecord,
  decodeToken,
  encodeRecord,
  encodeValue,
  heldForMs,
  readRecord,
  shownRecord,
  UNREADABLE_HOLDER,
  VALUE_BYTES_MAX,
} from "./record.ts";
import { isToken } from "./token.ts";

const identity = { holderId: "host/1", sessionId: "s1", attempt: "s1.1" };

describe("round trip", () => {
  test("any JSON value is read as it was written", () => {
    const json = fc
      .jsonValue({ maxDepth: 4 })
      .filter((value) => JSON.stringify(value).length < 1_000);
    fc.assert(
      fc.property(json, (value) => {
        const back = decodeRecord(encodeRecord({ ...identity, value }));
        expect(JSON.stringify(back.value)).toBe(JSON.stringify(value));
        expect(back).toMatchObject(identity);
      }),
    );
  });

  test("any valid holderId is read as it was written", () => {
    const holderId = fc
      .string({ unit: "binary", minLength: 1, maxLength: 60 })
      .filter((text) => !text.includes("\0"));
    fc.assert(
      fc.property(holderId, (id) => {
        expect(decodeRecord(encodeRecord({ ...identity, holderId: id })).holderId).toBe(id);
      }),
    );
  });

  test("an absent value and the value null are distinguished", () => {
    expect("value" in decodeRecord(encodeRecord(identity))).toBe(false);
    expect("value" in decodeRecord(encodeRecord({ ...identity, value: undefined }))).toBe(false);
    expect(decodeRecord(encodeRecord({ ...identity, value: null }))).toEqual({
      ...identity,
      value: null,
    });
  });

  test("a key named __proto__ stays data", () => {
    const value = JSON.parse('{"__proto__":{"admin":true}}') as unknown;
    const back = decodeRecord(encodeRecord({ ...identity, value })).value as object;
    expect(Object.hasOwn(back, "__proto__")).toBe(true);
    expect("admin" in back).toBe(false);
  });
});

describe("grantedAtMs", () => {
  test("is read in whole milliseconds, with its boot", () => {
    const granted = { grantedAtMs: 1_700_000_000_000, bootId: "boot one" };
    expect(decodeRecord(encodeRecord({ ...identity, value: 1, ...granted }))).toEqual({
      ...identity,
      value: 1,
      ...granted,
    });
    const text = encodeRecord({ ...identity, ...granted, grantedAtMs: 12.6 });
    expect(decodeRecord(text).grantedAtMs).toBe(13);
  });

  test("is the last field of the record, where two stores expect it", () => {
    const record = { ...identity, value: { a: "}" }, grantedAtMs: 17 };
    const { grantedAtMs: _, ...without } = record;
    const ending = ',"grantedAtMs":17}';
    expect(encodeRecord(record)).toBe(encodeRecord(without).slice(0, -1) + ending);
  });

  test.each([null, "17", 1.5, 1e300, true, [17], { at: 17 }])(
    "the malformed time %j is ignored",
    (grantedAtMs) => {
      const text = JSON.stringify({ v: 1, ...identity, grantedAtMs, bootId: 7 });
      expect(decodeRecord(text)).toEqual(identity);
    },
  );

  test("heldForMs is never below 0, and undefined if the record has no time", () => {
    expect(heldForMs({ grantedAtMs: 1_000 }, 1_750)).toBe(750);
    expect(heldForMs({ grantedAtMs: 2_000 }, 1_750)).toBe(0);
    expect(heldForMs({}, 1_750)).toBeUndefined();
  });
});

describe("malformed records", () => {
  function decodeError(text: string): unknown {
    try {
      return decodeRecord(text) && undefined;
    } catch (error) {
      return error;
    }
  }

  test("random text is rejected with StoreUnusableError", () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(decodeError(text)).toBeInstanceOf(StoreUnusableError);
      }),
    );
  });

  test("random JSON is read, or rejected with StoreUnusableError", () => {
    const field = fc.oneof(fc.jsonValue(), fc.constant("text"));
    const nearly = fc.record(
      {
        v: fc.oneof(fc.constant(1), fc.jsonValue()),
        holderId: field,
        sessionId: field,
        attempt: field,
      },
      { requiredKeys: [] },
    );
    fc.assert(
      fc.property(
        fc.oneof(
          fc.json(),
          nearly.map((value) => JSON.stringify(value)),
        ),
        (text) => {
          const error = decodeError(text);
          if (error !== undefined) expect(error).toBeInstanceOf(StoreUnusableError);
        },
      ),
    );
  });

  test.each([
    "null",
    "[]",
    "1",
    '"text"',
    "{}",
    '{"v":1}',
    '{"v":1,"holderId":"a","sessionId":"b"}',
  ])("%s is not a record", (text) => {
    expect(decodeError(text)).toBeInstanceOf(StoreUnusableError);
  });

  test("a record with a missing field or a field of another type is rejected", () => {
    const whole = { ...identity, v: 1 };
    expect(decodeError(JSON.stringify(whole))).toBeUndefined();
    for (const name of Object.keys(whole)) {
      for (const value of [
        undefined,
        null,
        7,
        true,
        ["1"],
        { name: "1" },
        ...(name === "v" ? ["1"] : []),
      ]) {
        const text = JSON.stringify({ ...whole, [name]: value });
        expect(decodeError(text), text).toBeInstanceOf(StoreUnusableError);
      }
    }
  });

  test("the error for a record of a newer version says to upgrade", () => {
    const text = JSON.stringify({ ...identity, v: 2 });
    expect(() => decodeRecord(text)).toThrow(/version 2; this Tenure reads version 1. Upgrade/);
  });

  test("a version that cannot be converted to text is rejected like any other", () => {
    expect(decodeError('{"v":{"toString":1}}')).toBeInstanceOf(StoreUnusableError);
  });

  test("S8: a damaged record is rejected or read, and lists still show it", () => {
    const valid = fc
      .jsonValue({ maxDepth: 3 })
      .filter((value) => JSON.stringify(value).length < 1_000)
      .map((value) => encodeRecord({ ...identity, value }));
    fc.assert(
      fc.property(hostileText(valid), (text) => {
        const error = decodeError(text);
        if (error !== undefined) expect(error).toBeInstanceOf(StoreUnusableError);
        expect(readRecord(text) === undefined).toBe(error !== undefined);
        const shown = shownRecord(text);
        expect(shown.holderId === UNREADABLE_HOLDER).toBe(error !== undefined);
        // The result can be encoded again.
        expect(() => JSON.stringify(shown)).not.toThrow();
      }),
      { numRuns: 1_000 },
    );
  });

  test.each(["v", "value", "holderId"])("S8: deep nesting in `%s` is rejected", (name) => {
    const deep = "[".repeat(100_000) + "]".repeat(100_000);
    const whole = JSON.stringify({ ...identity, v: 1, [name]: 0 });
    const text = whole.replace(`"${name}":0`, `"${name}":${deep}`);
    expect(decodeError(text)).toBeInstanceOf(StoreUnusableError);
  });

  test("S8: a value that no holder may publish is rejected", () => {
    const text = JSON.stringify({ ...identity, v: 1, value: "x".repeat(VALUE_BYTES_MAX) });
    expect(decodeError(text)).toBeInstanceOf(StoreUnusableError);
  });

  test("S8: a stored token is a token, or the store is unusable", () => {
    const valid = fc.bigInt({ min: 1n, max: 2n ** 127n - 1n });
    fc.assert(
      fc.property(valid, (token) => void expect(decodeToken(String(token))).toBe(token)),
      { numRuns: 200 },
    );
    fc.assert(
      fc.property(hostileText(valid.map(String)), (text) => {
        try {
          expect(isToken(decodeToken(text))).toBe(true);
        } catch (error) {
          expect(error).toBeInstanceOf(StoreUnusableError);
        }
      }),
      { numRuns: 500 },
    );
  });

  test("S8: a malformed notice is skipped, and the others are read", () => {
    const junk = fc.oneof(fc.anything(), hostileText(fc.constant("17")));
    fc.assert(
      fc.property(fc.array(fc.tuple(junk, junk), { maxLength: 4 }), (pairs) => {
        const notices = decodeNotices([...pairs, ["r", "17"]]);
        expect(notices.at(-1)).toEqual({ resource: "r", token: 17n });
        for (const { resource, token } of notices)
          expect([typeof resource, isToken(token)]).toEqual(["string", true]);
      }),
      { numRuns: 500 },
    );
  });

  test("a long text is truncated in the error", () => {
    const error = decodeError(`{"v":1,"x":"${"y".repeat(10_000)}"}`) as Error;
    expect(error.message.length).toBeLessThan(200);
    expect(decodeError("z".repeat(10_000))).toMatchObject({
      message: expect.stringMatching(/^.{1,200}$/),
    });
  });
});

describe("checks before writing", () => {
  test("a value of exactly the limit is accepted and one byte more is rejected, counted in UTF-8", () => {
    const quotes = 2;
    expect(encodeValue("x".repeat(VALUE_BYTES_MAX - quotes))).toHaveLength(VALUE_BYTES_MAX);
    expect(() => encodeValue("x".repeat(VALUE_BYTES_MAX - quotes + 1))).toThrow(
      "`value` has 4097 bytes as JSON; at most 4096 are allowed",
    );
    expect(() => encodeValue("é".repeat(VALUE_BYTES_MAX / 2))).toThrow(InvalidArgumentError);
  });

  test("a value that JSON cannot express is rejected with the reason", () => {
    const cycle: unknown[] = [];
    cycle.push(cycle);
    for (const value of [cycle, 1n, { deep: [1n] }]) {
      expect(() => encodeValue(value)).toThrow("`value` must be plain JSON (no cycles, no bigint)");
    }
    for (const value of [() => 1, Symbol("x")]) {
      expect(() => encodeValue(value)).toThrow("not a function or symbol");
    }
    expect(encodeValue(undefined)).toBeUndefined();
  });

  test.each(["", "a\0b", 7, undefined, null])("the holderId %j is rejected", (holderId) => {
    expect(() => checkHolderId(holderId)).toThrow(InvalidArgumentError);
    expect(() => encodeRecord({ ...identity, holderId: holderId as string })).toThrow(
      "`holderId` must",
    );
  });

  test("a holderId has at most 256 bytes of UTF-8", () => {
    expect(checkHolderId("x".repeat(256))).toHaveLength(256);
    expect(() => checkHolderId("x".repeat(257))).toThrow("at most 256 bytes");
    expect(() => checkHolderId("é".repeat(129))).toThrow(InvalidArgumentError);
  });

  test("a holderId with half of a surrogate pair is rejected", () => {
    expect(() => checkHolderId("host\ud800")).toThrow(InvalidArgumentError);
  });
});
