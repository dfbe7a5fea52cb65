// Goal: nothing that arrives on the channel can do more than cause a check (S8). Method: payloads of ours, and any others.
import fc from "fast-check";
import { expect, test } from "vitest";
import { parseNotice } from "./notices.ts";

test("payloads of ours are read", () => {
  expect(parseNotice("ra/b")).toEqual({ kind: "changed", resource: "a/b" });
  const turn = { kind: "turn", resource: "r", queue: ["a", "b"] };
  expect(parseNotice('t["r",["a","b"]]')).toEqual(turn);
  expect(parseNotice("p0123")).toEqual({ kind: "proof" });
});

test.each([
  "",
  "tboom",
  't["x",null]',
  't["x"]',
  't["x",[1]]',
  't[1,["a"]]',
  "t{}",
  "tnull",
  "x",
  "t",
])("S8: %j is not one of ours", (payload) =>
  expect(parseNotice(payload)).toEqual({ kind: "unknown" }),
);

test("S8: any text is read without an exception, and what is read has the right shape", () => {
  const json = fc.json().map((text) => `t${text}`);
  fc.assert(
    fc.property(fc.oneof(fc.string({ unit: "binary" }), json), (payload) => {
      const notice = parseNotice(payload);
      if (notice.kind === "changed") expect(payload).toBe(`r${notice.resource}`);
      if (notice.kind === "turn") {
        expect(notice.queue.every((attempt) => typeof attempt === "string")).toBe(true);
        expect(typeof notice.resource).toBe("string");
      }
    }),
    { numRuns: 2_000 },
  );
});
