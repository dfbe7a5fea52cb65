// Goal: what is written can be read, to the last digit, and damaged messages are refused. Method:
// known bytes, properties over random numbers and sizes, and every truncation of a message.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decodeRange, decodeTxn, encodeTxn } from "./kv.ts";
import { Reader, Writer } from "./protobuf.ts";

function written(write: (writer: Writer) => void): Buffer {
  const writer = new Writer();
  write(writer);
  return writer.finish();
}

describe("numbers", () => {
  test("S1: 64 bits survive exactly, also above 2^53 and below 0", () => {
    fc.assert(
      fc.property(fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }), (value) => {
        const reader = new Reader(written((writer) => writer.int64(3, value)));
        expect(reader.next()).toBe(true);
        expect([reader.field, reader.int64(), reader.next()]).toEqual([3, value, false]);
      }),
      {
        examples: [
          2n ** 53n + 1n,
          2n ** 63n - 1n,
          -1n,
          0n,
          127n,
          128n,
          2n ** 32n - 1n,
          2n ** 28n,
        ].map((value): [bigint] => [value]),
      },
    );
  });

  test("have the bytes that protobuf prescribes", () => {
    expect(written((writer) => writer.int64(1, 300n)).toString("hex")).toBe("08ac02");
    expect(written((writer) => writer.int64(1, -1n)).toString("hex")).toBe(
      "08ffffffffffffffffff01",
    );
    expect(written((writer) => writer.uint(64, 2)).toString("hex")).toBe("800402");
    expect(written((writer) => writer.text(2, "hé")).toString("hex")).toBe("120368c3a9");
  });
});

describe("nested messages", () => {
  test("of any size get the right length", () => {
    for (const size of [0, 1, 125, 126, 127, 128, 16_380, 16_384, 70_000]) {
      const body = Buffer.alloc(size, 7);
      const message = written((writer) => {
        writer.message(1, () => writer.message(2, () => writer.bytes(3, body)));
        writer.uint(4, 9);
      });
      const outer = new Reader(message);
      outer.next();
      const middle = outer.message();
      middle.next();
      const inner = middle.message();
      inner.next();
      expect(inner.bytes().equals(body)).toBe(true);
      expect([outer.next(), outer.field, outer.int64()]).toEqual([true, 4, 9n]);
    }
  });

  test("and fields that are not read are skipped", () => {
    const message = Buffer.from([0x09, ...Buffer.alloc(8), 0x15, 0, 0, 0, 0, 0x1a, 1, 5, 0x20, 1]);
    const reader = new Reader(message);
    const fields: number[] = [];
    while (reader.next()) fields.push(reader.field);
    expect(fields).toEqual([1, 2, 3, 4]);
  });
});

describe("damaged messages", () => {
  test("are refused, not misread: every truncation, a number without end, a wrong type", () => {
    const key = Buffer.from("key");
    const whole = encodeTxn({
      when: [{ key, target: "create", is: ">", than: 2n ** 60n }],
      yes: [{ put: { key, value: key, lease: 5n } }],
      no: [{ get: { key } }],
    });
    for (let length = 1; length < whole.length; length += 1) {
      const read = (): unknown => readAll(new Reader(whole.subarray(0, length)));
      if (!endsBetweenFields(whole, length)) expect(read).toThrow(/cut off/);
    }
    const endless = new Reader(Buffer.alloc(11, 0xff));
    expect(() => endless.next()).toThrow(/too long/);
    expect(() => decodeRange(new Reader(Buffer.from([0x08, 1])))).toThrow(/wrong type/);
    expect(() => decodeTxn(new Reader(Buffer.from([0x0b])))).toThrow();
  });
});

function readAll(reader: Reader): void {
  while (reader.next()) reader.bytes();
}

/**
 * The message has three fields, one behind the other: cut off exactly between two, it is a shorter
 * whole.
 */
function endsBetweenFields(whole: Buffer, length: number): boolean {
  let at = 0;
  while (at < length) at += 2 + (whole[at + 1] ?? 0);
  return at === length;
}
