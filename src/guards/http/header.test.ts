// Goal: every resource and token survives the header, only its one form is accepted, and all other
// input is rejected cleanly. Method: properties, and fuzzing with arbitrary text, with fragments of
// headers and with changed headers.

import { generateKeyPairSync } from "node:crypto";
import fc from "fast-check";
import { expect, test } from "vitest";
import { hasLoneSurrogate } from "../../core/text.ts";
import { TOKEN_LIMIT } from "../../core/token.ts";
import { ManualClock } from "../../testing/manual-clock.ts";
import { memoryGuard } from "../memory/index.ts";
import { verifier } from "../proof/signed.ts";
import { Admission } from "./admission.ts";
import { formatHeader, parseHeader } from "./header.ts";

const fragments = fc
  .array(
    fc.constantFrom(
      ...["resource=", "token=", "signed=", '"', '%"', "\\", '\\"', "%c3", "%bc", "%ff", "%", ","],
      ...[" ", ", ", ";", "=", "a", "ü", "\0", "\uD800", "\n", "1", "0", "-", ".", "tenure1.k1."],
      ...["9".repeat(39), "9".repeat(40), '"a", token=1', 'resource="a", ', "a".repeat(500)],
    ),
    { maxLength: 60 },
  )
  .map((parts) => parts.join(""));
const changed = fc
  .tuple(
    fc.constantFrom(
      'resource="a", token=1',
      'resource=%"%c3%bc", token=12',
      'signed="tenure1.k1.a.b"',
    ),
    fc.nat(30),
    fc.nat(3),
    fc.string({ unit: "binary", maxLength: 3 }),
  )
  .map(([text, at, length, other]) => text.slice(0, at) + other + text.slice(at + length));
const hostile = fc.oneof(
  fc.string({ unit: "binary", maxLength: 1_100 }),
  fragments,
  changed,
  fc.tuple(fragments, fc.nat(2_000)).map(([text, times]) => text.repeat(times).slice(0, 1_000_000)),
);

test("every resource and token that fits is read as it was written, in printable ASCII", () => {
  const resource = fc
    .string({
      unit: fc.oneof(
        fc.constantFrom(...'"\\%, =ü账😀\u0001\uFEFF'),
        fc.string({ minLength: 1, maxLength: 1 }),
      ),
      minLength: 1,
      maxLength: 60,
    })
    .filter((text) => !text.includes("\0") && !hasLoneSurrogate(text));
  fc.assert(
    fc.property(resource, fc.bigInt(1n, TOKEN_LIMIT - 1n), (name, token) => {
      const text = formatHeader({ resource: name, token });
      expect(text).toMatch(/^[ -~]+$/);
      expect(parseHeader(text)).toEqual({ kind: "facts", resource: name, token });
    }),
    { numRuns: 500 },
  );
});

test("an ASCII name is not encoded", () => {
  expect(formatHeader({ resource: "settlement", token: 4720n })).toBe(
    'resource="settlement", token=4720',
  );
  expect(formatHeader({ resource: "café", token: 1n })).toBe('resource=%"caf%c3%a9", token=1');
});

test("every other form is rejected", () => {
  const good = 'resource="a", token=1';
  for (const text of [
    "",
    " ",
    `${good} `,
    `${good},`,
    `${good}, ${good}`,
    'resource="a", token=1, token=2',
    'token=1, resource="a"',
    'resource="a"; token=1',
    'resource="", token=1',
    'resource="a\\x", token=1',
    'resource="ü", token=1',
    'resource=%"%C3%BC", token=1',
    'resource=%"%ff", token=1',
    'resource=%"%c", token=1',
    'resource="a", token=01x',
    'resource="a", token=+1',
    'resource="a", token="1"',
    'signed="a b"',
    'signed="a", token=1',
    `resource="${"a".repeat(1_020)}", token=1`,
  ]) {
    expect(() => parseHeader(text), text).toThrow(
      expect.objectContaining({ code: "INVALID_ARGUMENT" }),
    );
  }
  expect(() => formatHeader({ resource: "ü".repeat(256), token: 1n })).toThrow("Shorten");
});

test("S8: arbitrary text is read as one token or rejected as an invalid argument", () => {
  let read = 0;
  fc.assert(
    fc.property(hostile, (text) => {
      try {
        const offered = parseHeader(text);
        read += 1;
        if (offered.kind === "facts") expect(parseHeader(formatHeader(offered))).toEqual(offered);
        else expect(text).toBe(`signed="${offered.text}"`);
      } catch (error) {
        expect(error).toMatchObject({ code: "INVALID_ARGUMENT" });
      }
    }),
    { numRuns: 5_000, examples: [['resource="a", token=1'], ['signed="a"']] },
  );
  expect(read).toBeGreaterThanOrEqual(2);
});

test("S8: a request with an arbitrary header is admitted or gets a 4xx, and the guard is asked only about tokens", async () => {
  const { publicKey } = generateKeyPairSync("ed25519");
  const signedBy = verifier({ keys: { k1: publicKey } });
  const errors: unknown[] = [];
  const clock = new ManualClock();
  for (const verifying of [undefined, signedBy]) {
    const admission = new Admission({
      guard: memoryGuard(),
      resource: "a",
      signedBy: verifying,
      waitMs: 1_000,
      clock,
      onError: (error: unknown) => errors.push(error),
    });
    const statuses = new Set<number>();
    await fc.assert(
      fc.asyncProperty(hostile, async (header) => {
        const request = {};
        const arrival = { request, key: request, header, onGone: () => undefined };
        const entering = admission.enter(arrival);
        await clock.advance(1_000);
        const entry = await entering;
        statuses.add("status" in entry ? entry.status : 200);
        if (!("status" in entry)) entry.leave();
        else expect(JSON.parse(entry.body)).toMatchObject({ status: entry.status });
      }),
      { numRuns: 2_000, examples: [[""], ["x"], ['signed="a"'], ['resource="b", token=1']] },
    );
    const expected = verifying === undefined ? [200, 400, 403, 409, 428] : [400, 401, 428];
    for (const status of statuses) expect(expected).toContain(status);
  }
  expect(errors).toEqual([]);
});
