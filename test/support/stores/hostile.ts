// Input as a buggy or hostile peer might send it: valid bytes or text, damaged in typical ways.
import fc from "fast-check";

/** Lengths and numbers that parsers get wrong, as four bytes. */
const LENGTHS = [0, 1, 0x7f, 0x80, 0xff, 0x7fff_ffff, 0x8000_0000, 0xffff_fffe, 0xffff_ffff];

type Damage = (bytes: Buffer) => Buffer;

const at = fc.nat(4_096);
const damages: fc.Arbitrary<Damage> = fc.oneof(
  at.map(
    (end): Damage =>
      (bytes) =>
        bytes.subarray(0, end % (bytes.length + 1)),
  ),
  fc.tuple(at, fc.integer({ min: 1, max: 255 })).map(
    ([index, bits]): Damage =>
      (bytes) => {
        const copy = Buffer.from(bytes);
        if (copy.length > 0) copy[index % copy.length] = (copy[index % copy.length] ?? 0) ^ bits;
        return copy;
      },
  ),
  fc.tuple(at, fc.uint8Array({ maxLength: 12 })).map(
    ([index, more]): Damage =>
      (bytes) => {
        const cut = index % (bytes.length + 1);
        return Buffer.concat([bytes.subarray(0, cut), more, bytes.subarray(cut)]);
      },
  ),
  fc.tuple(at, at).map(
    ([from, to]): Damage =>
      (bytes) => {
        const piece = bytes.subarray(from % (bytes.length + 1), to % (bytes.length + 1));
        return Buffer.concat([bytes, piece, bytes]);
      },
  ),
  fc.tuple(at, fc.constantFrom(...LENGTHS)).map(
    ([index, length]): Damage =>
      (bytes) => {
        const copy = Buffer.from(bytes);
        if (copy.length >= 4) copy.writeUInt32BE(length, index % (copy.length - 3));
        return copy;
      },
  ),
);

/** Random bytes, or valid bytes that were damaged one to three times. */
export function hostileBytes(valid: fc.Arbitrary<Uint8Array>): fc.Arbitrary<Buffer> {
  const damaged = fc
    .tuple(valid, fc.array(damages, { minLength: 1, maxLength: 3 }))
    .map(([bytes, steps]) => steps.reduce<Buffer>((done, step) => step(done), Buffer.from(bytes)));
  const random = fc.uint8Array({ maxLength: 300 }).map((bytes): Buffer => Buffer.from(bytes));
  return fc.oneof({ weight: 1, arbitrary: random }, { weight: 4, arbitrary: damaged });
}

const WORDS = [
  "NaN",
  "Infinity",
  "-1",
  "1e999",
  "9007199254740993",
  "9".repeat(40),
  "0",
  "0x10",
  "1.5",
  "\0",
  "\ud800",
  "\udc00",
  "\ufffd",
  "__proto__",
  "[".repeat(20_000),
  "]",
  "{",
  "}",
  ":",
  '"',
];

/** The same for texts, with numbers out of range, lone surrogates and deep nesting. */
export function hostileText(valid: fc.Arbitrary<string>): fc.Arbitrary<string> {
  const bytes = hostileBytes(valid.map((text) => Buffer.from(text))).map(String);
  const spliced = fc
    .tuple(valid, fc.nat(2_000), fc.nat(8), fc.constantFrom(...WORDS))
    .map(([text, index, length, word]) => {
      const from = index % (text.length + 1);
      return text.slice(0, from) + word + text.slice(from + length);
    });
  return fc.oneof(fc.string({ unit: "binary" }), bytes, spliced);
}
