// Goal: what one process publishes, every other reads unchanged, and nothing that a stranger wrote into the store can
// do more than be refused. Method: round trips of any JSON value; then random text, random JSON and chosen poison.
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

const who = { holderId: "host/1", sessionId: "s1", attempt: "s1.1" };

describe("round trip", () => {
  test("any JSON value comes back as it went in", () => {
    const json = fc
      .jsonValue({ maxDepth: 4 })
      .filter((value) => JSON.stringify(value).length < 1_000);
    fc.assert(
      fc.property(json, (value) => {
        const back = decodeRecord(encodeRecord({ ...who, value }));
        expect(JSON.stringify(back.value)).toBe(JSON.stringify(value));
        expect(back).toMatchObject(who);
      }),
    );
  });

  test("any holder id of sound text comes back as it went in", () => {
    const holderId = fc
      .string({ unit: "binary", minLength: 1, maxLength: 60 })
      .filter((text) => !text.includes("\0"));
    fc.assert(
      fc.property(holderId, (id) => {
        expect(decodeRecord(encodeRecord({ ...who, holderId: id })).holderId).toBe(id);
      }),
    );
  });

  test("no value and the value null are told apart", () => {
    expect("value" in decodeRecord(encodeRecord(who))).toBe(false);
    expect("value" in decodeRecord(encodeRecord({ ...who, value: undefined }))).toBe(false);
    expect(decodeRecord(encodeRecord({ ...who, value: null }))).toEqual({ ...who, value: null });
  });

  test("a key named __proto__ stays data", () => {
    const value = JSON.parse('{"__proto__":{"admin":true}}') as unknown;
    const back = decodeRecord(encodeRecord({ ...who, value })).value as object;
    expect(Object.hasOwn(back, "__proto__")).toBe(true);
    expect("admin" in back).toBe(false);
  });
});

describe("when it was granted", () => {
  test("comes back, in whole milliseconds, with its boot", () => {
    const granted = { grantedAtMs: 1_700_000_000_000, bootId: "boot one" };
    expect(decodeRecord(encodeRecord({ ...who, value: 1, ...granted }))).toEqual({
      ...{ ...who, value: 1, ...granted },
    });
    const text = encodeRecord({ ...who, ...granted, grantedAtMs: 12.6 });
    expect(decodeRecord(text).grantedAtMs).toBe(13);
  });

  test("is the end of the record, where two stores look for it", () => {
    const record = { ...who, value: { a: "}" }, grantedAtMs: 17 };
    const { grantedAtMs: _, ...without } = record;
    const ending = ',"grantedAtMs":17}';
    expect(encodeRecord(record)).toBe(encodeRecord(without).slice(0, -1) + ending);
  });

  test.each([null, "17", 1.5, 1e300, true, [17], { at: 17 }])(
    "%j is no such time, and the record is read without it",
    (grantedAtMs) => {
      const text = JSON.stringify({ v: 1, ...who, grantedAtMs, bootId: 7 });
      expect(decodeRecord(text)).toEqual(who);
    },
  );

  test("gives for how long: never below 0, and nothing where a record does not say it", () => {
    expect(heldForMs({ grantedAtMs: 1_000 }, 1_750)).toBe(750);
    expect(heldForMs({ grantedAtMs: 2_000 }, 1_750)).toBe(0);
    expect(heldForMs({}, 1_750)).toBeUndefined();
  });
});

describe("reading what a stranger wrote", () => {
  function refusal(text: string): unknown {
    try {
      return decodeRecord(text) && undefined;
    } catch (error) {
      return error;
    }
  }

  test("random text is refused with StoreUnusableError", () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        expect(refusal(text)).toBeInstanceOf(StoreUnusableError);
      }),
    );
  });

  test("random JSON is refused or read, and never crashes in another way", () => {
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
          const error = refusal(text);
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
    expect(refusal(text)).toBeInstanceOf(StoreUnusableError);
  });

  test("a record with one field missing or of another type is refused", () => {
    const whole = { ...who, v: 1 };
    expect(refusal(JSON.stringify(whole))).toBeUndefined();
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
        expect(refusal(text), text).toBeInstanceOf(StoreUnusableError);
      }
    }
  });

  test("a record of a newer version tells to upgrade", () => {
    const text = JSON.stringify({ ...who, v: 2 });
    expect(() => decodeRecord(text)).toThrow(/version 2; this Tenure reads version 1. Upgrade/);
  });

  test("a version that cannot be turned into text is refused like any other", () => {
    expect(refusal('{"v":{"toString":1}}')).toBeInstanceOf(StoreUnusableError);
  });

  test("S8: a damaged record is refused or read; lists show it all the same", () => {
    const valid = fc
      .jsonValue({ maxDepth: 3 })
      .filter((value) => JSON.stringify(value).length < 1_000)
      .map((value) => encodeRecord({ ...who, value }));
    fc.assert(
      fc.property(hostileText(valid), (text) => {
        const error = refusal(text);
        if (error !== undefined) expect(error).toBeInstanceOf(StoreUnusableError);
        expect(readRecord(text) === undefined).toBe(error !== undefined);
        const shown = shownRecord(text);
        expect(shown.holderId === UNREADABLE_HOLDER).toBe(error !== undefined);
        // What is handed to the caller can be written again.
        expect(() => JSON.stringify(shown)).not.toThrow();
      }),
      { numRuns: 1_000 },
    );
  });

  test.each(["v", "value", "holderId"])("S8: deep nesting in `%s` is refused", (name) => {
    const deep = "[".repeat(100_000) + "]".repeat(100_000);
    const whole = JSON.stringify({ ...who, v: 1, [name]: 0 });
    const text = whole.replace(`"${name}":0`, `"${name}":${deep}`);
    expect(refusal(text)).toBeInstanceOf(StoreUnusableError);
  });

  test("S8: a value that no holder may publish is refused", () => {
    const text = JSON.stringify({ ...who, v: 1, value: "x".repeat(VALUE_BYTES_MAX) });
    expect(refusal(text)).toBeInstanceOf(StoreUnusableError);
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

  test("a long text is cut in the error", () => {
    const error = refusal(`{"v":1,"x":"${"y".repeat(10_000)}"}`) as Error;
    expect(error.message.length).toBeLessThan(200);
    expect(refusal("z".repeat(10_000))).toMatchObject({
      message: expect.stringMatching(/^.{1,200}$/),
    });
  });
});

describe("checks before writing", () => {
  test("a value of exactly the limit passes, one byte more is refused, counted in UTF-8", () => {
    const quotes = 2;
    expect(encodeValue("x".repeat(VALUE_BYTES_MAX - quotes))).toHaveLength(VALUE_BYTES_MAX);
    expect(() => encodeValue("x".repeat(VALUE_BYTES_MAX - quotes + 1))).toThrow(
      "`value` has 4097 bytes as JSON; at most 4096 are allowed",
    );
    expect(() => encodeValue("é".repeat(VALUE_BYTES_MAX / 2))).toThrow(InvalidArgumentError);
  });

  test("what JSON cannot carry is refused with the reason", () => {
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

  test.each(["", "a\0b", 7, undefined, null])("the holder id %j is refused", (holderId) => {
    expect(() => checkHolderId(holderId)).toThrow(InvalidArgumentError);
    expect(() => encodeRecord({ ...who, holderId: holderId as string })).toThrow("`holderId` must");
  });

  test("a holder id has at most 256 bytes of UTF-8", () => {
    expect(checkHolderId("x".repeat(256))).toHaveLength(256);
    expect(() => checkHolderId("x".repeat(257))).toThrow("at most 256 bytes");
    expect(() => checkHolderId("é".repeat(129))).toThrow(InvalidArgumentError);
  });

  test("a holder id with half of a surrogate pair is refused", () => {
    expect(() => checkHolderId("host\ud800")).toThrow(InvalidArgumentError);
  });
});
