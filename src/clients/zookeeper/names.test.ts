// Goal: every resource and attempt has a legal name of its own that leads back to it, and places come in the order of their
// coming, also where the server's counter wraps. Method: properties, and the edges by hand.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decodeNotices, decodePlace, encodeNotices } from "../../stores/zookeeper/record.ts";
import { decodeName, encodeName, placePrefix, placesOf, sessionName } from "./names.ts";

const name = fc.string({ unit: "grapheme", minLength: 1, maxLength: 100 });

describe("names of nodes", () => {
  test("are legal and lead back to the text", () => {
    fc.assert(
      fc.property(name, (text) => {
        const encoded = encodeName(text);
        expect(encoded).toMatch(/^[\x21-\x2e\x30-\x7e]+$/);
        expect(["", ".", ".."]).not.toContain(encoded);
        expect(decodeName(encoded)).toBe(text);
      }),
    );
  });

  test.each([".", "..", "...", "a/b", "/", "%", "%2E", "a\n", "zookeeper", "\u{1f512}"])(
    "%j keeps its own name",
    (text) => {
      expect(decodeName(encodeName(text))).toBe(text);
      expect(encodeName(text)).not.toMatch(/^\.{1,2}$|\//);
    },
  );

  test.each(["a%2eb", "a%zz", "a b", "%61", "a%"])("%j is not ours", (foreign) => {
    expect(decodeName(foreign)).toBeUndefined();
  });

  test("sessions are named by their 64 bits without a sign", () => {
    expect(sessionName(1n)).toBe("0000000000000001");
    expect(sessionName(-1n)).toBe("ffffffffffffffff");
  });
});

describe("places", () => {
  const session = "00000000000000aa";
  const place = (number: string, attempt = "x.1"): string =>
    `${placePrefix(session, "one", attempt)}${number}`;
  const order = (...numbers: string[]): number[] =>
    placesOf(numbers.map((number) => place(number))).map(({ sequence }) => sequence);

  test("of different attempts have different names", () => {
    const attempts = ["one.1", ".1", "!.1", "one", "one.", "one.one.1", "!one.1", "two.1"];
    const names = attempts.map((attempt) => placePrefix(session, "one", attempt));
    expect(new Set(names).size).toBe(attempts.length);
  });

  test("come in the order of their numbers", () => {
    expect(order("0000000010", "0000000009", "0000000000")).toEqual([0, 9, 10]);
  });

  test("who came before the counter wrapped is before who came after", () => {
    const [last, first] = ["2147483647", "-2147483648"];
    expect(order(first, last)).toEqual([2147483647, -2147483648]);
    expect(order("-2147483640", "2147483640", first, last)).toEqual([
      2147483640, 2147483647, -2147483648, -2147483640,
    ]);
    expect(order("0000000001", "-0000000001", "0000000000")).toEqual([-1, 0, 1]);
  });

  test("a server that counts on beyond 32 bits keeps the order too", () => {
    expect(order("2147483648", "2147483647")).toEqual([2147483647, 2147483648]);
    expect(order("4294967296", "4294967295")).toEqual([4294967295, 4294967296]);
  });

  test("attempts that look alike are told apart, and strangers are left out", () => {
    const children = [place("0000000003", "a_1"), place("0000000002", "a"), "lock-0000000001", "x"];
    const places = placesOf(children);
    expect(places.map(({ sequence }) => sequence)).toEqual([2, 3]);
    expect(places.every((each) => each.session === session)).toBe(true);
  });
});

describe("what nodes say", () => {
  test("notices come back; what is no notice is left out", () => {
    const notices = [{ resource: 'a"\n', token: 2n ** 70n }];
    expect(decodeNotices(encodeNotices(notices))).toEqual(notices);
    expect(encodeNotices([])).toBe("");
    for (const odd of ["", "{", "null", "7", '["a"]', '[["a",1]]', '[["a","-1"]]', '[["a","0"]]'])
      expect(decodeNotices(odd), odd).toEqual([]);
    expect(decodeNotices('[["a","x"],["b","5"]]')).toEqual([{ resource: "b", token: 5n }]);
  });

  test("a place without a time or a record is refused", () => {
    for (const odd of ["", "x", " {}", "0 {}", "-5 {}", "1000 {}"])
      expect(() => decodePlace(odd), odd).toThrow(/lease/i);
  });
});
