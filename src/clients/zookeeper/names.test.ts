// Goal: every resource and attempt has its own legal name that can be decoded, and queue nodes are
// in order, also if the server's counter wraps around. Method: properties, and edge cases.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { decodeNode, decodeNotices, encodeNotices } from "../../stores/zookeeper/record.ts";
import { decodeName, encodeName, isNodeOf, nodeBase, queueNodesOf, sessionName } from "./names.ts";

const name = fc.string({ unit: "grapheme", minLength: 1, maxLength: 100 });

describe("names of nodes", () => {
  test("are legal and can be decoded", () => {
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

  test.each(["a%2eb", "a%zz", "a b", "%61", "a%"])("%j belongs to another program", (foreign) => {
    expect(decodeName(foreign)).toBeUndefined();
  });

  test("sessions are named by their 64 bits, unsigned", () => {
    expect(sessionName(1n)).toBe("0000000000000001");
    expect(sessionName(-1n)).toBe("ffffffffffffffff");
  });
});

describe("queue nodes", () => {
  const session = "00000000000000aa";
  const node = (number: string, attempt = "x.1", tag = ""): string =>
    `${nodeBase(session, "one", attempt)}${tag}_${number}`;
  const order = (...numbers: string[]): number[] =>
    queueNodesOf(numbers.map((number) => node(number))).map(({ arrival }) => arrival);

  test("different attempts have different names", () => {
    const attempts = ["one.1", ".1", "!.1", "one", "one.", "one.one.1", "!one.1", "two.1"];
    const names = attempts.map((attempt) => nodeBase(session, "one", attempt));
    expect(new Set(names).size).toBe(attempts.length);
  });

  test("are in the order of their numbers", () => {
    expect(order("0000000010", "0000000009", "0000000000")).toEqual([0, 9, 10]);
  });

  test("the order survives a counter that wraps around", () => {
    const [last, first] = ["2147483647", "-2147483648"];
    expect(order(first, last)).toEqual([2147483647, -2147483648]);
    expect(order("-2147483640", "2147483640", first, last)).toEqual([
      2147483640, 2147483647, -2147483648, -2147483640,
    ]);
    expect(order("0000000001", "-0000000001", "0000000000")).toEqual([-1, 0, 1]);
  });

  test("the order is kept by a server that counts beyond 32 bits", () => {
    expect(order("2147483648", "2147483647")).toEqual([2147483647, 2147483648]);
    expect(order("4294967296", "4294967295")).toEqual([4294967295, 4294967296]);
  });

  test("similar attempts are distinguished, and other names are ignored", () => {
    const names = [node("0000000003", "a_1"), node("0000000002", "a"), "lock-0000000001", "x"];
    const nodes = queueNodesOf(names);
    expect(nodes.map(({ arrival }) => arrival)).toEqual([2, 3]);
    expect(nodes.every((each) => each.session === session)).toBe(true);
    const base = nodeBase(session, "one", "a");
    expect(names.filter((name) => isNodeOf(base, name))).toEqual([names[1]]);
  });

  test("a name contains rank, holder and first number if the request named a rank", () => {
    const [ranked, moved] = [
      node("0000000002", "a", "@3.0badcafe."),
      node("0000000009", "a", "@0.0badcafe.-5"),
    ];
    expect(queueNodesOf([moved, ranked])).toMatchObject([
      { rank: 3, holder: "0badcafe", arrival: 2 },
      { rank: 0, holder: "0badcafe", arrival: -5 },
    ]);
    const base = nodeBase(session, "one", "a");
    expect([ranked, moved].every((name) => isNodeOf(base, name))).toBe(true);
    const [plain] = queueNodesOf([node("0000000001")]);
    expect(plain).toMatchObject({ rank: 0, holder: undefined, arrival: 1 });
  });
});

describe("the data of nodes", () => {
  test("notices are decoded, and malformed lines are skipped", () => {
    const ref = { resource: 'a"\n', token: 2n ** 70n };
    const notices = [
      { kind: "lost", session: "s", ref },
      { kind: "wanted", session: "s", ref },
    ] as const;
    const text = encodeNotices(notices);
    expect(decodeNotices(text)).toEqual(notices);
    expect(encodeNotices([])).toBe("");
    for (const odd of ["", "{", "null", "7", '["lost"]', '["lost","s","a",1]', '["x","s","a","1"]'])
      expect(decodeNotices(`${odd}\n${text}\n${odd}`), odd).toEqual(notices);
  });

  test("a queue node without a time or a record is rejected", () => {
    for (const odd of ["", "x", " {}", "0 {}", "-5 {}", "1000 {}"])
      expect(() => decodeNode(odd), odd).toThrow(/lease/i);
  });
});
