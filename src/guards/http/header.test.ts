// Goal: every resource and token survives the header, and nothing but its one form is read. Method: properties.

import fc from "fast-check";
import { expect, test } from "vitest";
import { hasLoneSurrogate } from "../../core/text.ts";
import { TOKEN_LIMIT } from "../../core/token.ts";
import { formatHeader, parseHeader } from "./header.ts";

test("every resource and token that fits comes back as it was, in printable ASCII", () => {
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

test("a plain name is written plainly", () => {
  expect(formatHeader({ resource: "settlement", token: 4720n })).toBe(
    'resource="settlement", token=4720',
  );
  expect(formatHeader({ resource: "café", token: 1n })).toBe('resource=%"caf%c3%a9", token=1');
});

test("everything else is refused", () => {
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
