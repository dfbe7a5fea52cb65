// Goal: a published number is what its name says: a median, a p99 or the worst of few, of all rounds together. Method: known values
// go through the functions that make the rows, and through those that decide what is kept and what is listed.
import { describe, expect, test } from "vitest";
import { type Contestant, compare, milliseconds } from "../../bench/compare/comparison.ts";
import { rowsOfTimes } from "../../bench/compare/rows.ts";
import { aheadOfOurs, missed } from "../../bench/comparison-page.ts";
import { origin, versionsOf } from "../../bench/provenance.ts";
import { merged, unpublishable } from "../../bench/report.ts";
import { highEnd, median, quantile, type Row, rotated, type Section } from "../../bench/support.ts";

const upTo = (count: number): number[] => Array.from({ length: count }, (_, index) => index + 1);

describe("statistics", () => {
  test("the median of an even count is the mean of the middle two, whatever the order", () => {
    expect(median([4, 1, 3, 2])).toBe(2.5);
    expect(median([30, 10, 20])).toBe(20);
    expect(median([7])).toBe(7);
    expect(median([])).toBeNaN();
  });

  test("a quantile is the smallest value that so large a share does not exceed", () => {
    expect(quantile(upTo(100), 0.99)).toBe(99);
    expect(quantile(upTo(300), 0.99)).toBe(297);
    expect(quantile(upTo(4), 0)).toBe(1);
    expect(quantile(upTo(4), 1)).toBe(4);
    expect(quantile([], 0.99)).toBeNaN();
  });

  test("a p99 of fewer than a hundred is called the worst of them", () => {
    expect(highEnd(upTo(99))).toEqual({ name: "worst of 99", value: 99 });
    expect(highEnd(upTo(100))).toEqual({ name: "p99", value: 99 });
  });
});

describe("rows of single times", () => {
  const found = [
    { name: "tenure", kind: "ours", values: [1, 2, 30, 40] },
    { name: "other", kind: "peer", values: [8, 8, 8, 8] },
  ] as const;

  test("p50 and the worst are those of all rounds together", () => {
    const rows = rowsOfTimes(milliseconds, found);
    expect(rows.map(({ what, measured }) => `${what}: ${measured}`)).toEqual([
      "p50: tenure (1.00-40.00): 16.00 ms",
      "p50: other (8.00-8.00): 8.00 ms",
      "p50: times as good as other: 0.50x",
      "worst of 4: tenure: 40.00 ms",
      "worst of 4: other: 8.00 ms",
      "worst of 4: times as good as other: 0.20x",
    ]);
  });

  test("a limit is on the worst, and ratios may be for information", () => {
    const rows = rowsOfTimes(milliseconds, found, { limits: { worst: 39 }, isInformative: true });
    const judged = rows.filter(({ ok }) => ok !== undefined);
    expect(judged).toEqual([
      { what: "worst of 4: tenure", measured: "40.00 ms", target: "<= 39 ms", ok: false },
    ]);
  });
});

describe("the order of contestants", () => {
  test("everybody is the first in turn", async () => {
    const order: string[] = [];
    const contestant = (name: string): Contestant => ({
      ...{ name, kind: name === "a" ? "ours" : "peer" },
      measure: async () => {
        order.push(name);
        return { figures: { speed: 1 } };
      },
    });
    const comparison = {
      ...{ title: "a race", method: "", figures: { speed: milliseconds }, slices: 2 },
      contestants: ["a", "b", "c"].map(contestant),
    };
    await compare([comparison], { rounds: 2, quick: false, say: () => undefined });
    expect(order.join("")).toBe("abcbcacababc");
    expect(rotated([], 3)).toEqual([]);
  });
});

describe("the page of the comparison", () => {
  const section = (title: string, rows: readonly Row[]): Section => ({ title, method: "", rows });
  const ahead: Row = { what: "pairs: times as good as x (0.4-0.6)", measured: "0.50x" };

  test("has every row in which a peer is ahead, with the reason or without", () => {
    const list = aheadOfOurs([
      section("one", [{ ...ahead, ahead: { peer: "x", why: "does less: no token" } }, ahead]),
      section("two", [{ ...ahead, ok: false, target: ">= 1.00x", ahead: { peer: "x" } }]),
    ]);
    expect(list).toBe(
      "- **x** does less: no token. one, pairs: 0.50x.\n- **x** no reason: we are slower here. two, pairs: 0.50x.",
    );
    expect(aheadOfOurs([section("one", [ahead])])).toBe("Nowhere.");
  });

  test("a slower row without a reason is told as ahead by the comparison itself", () => {
    const found = [
      { name: "tenure", kind: "ours", values: [4] },
      { name: "x", kind: "peer", values: [2] },
    ] as const;
    for (const isInformative of [false, true]) {
      const rows = rowsOfTimes(milliseconds, found, { isInformative });
      expect(rows.filter((row) => row.ahead?.peer === "x")).toHaveLength(2);
    }
    const [, , row] = rowsOfTimes(milliseconds, found, { reasons: { x: "does less" } });
    expect(row).toMatchObject({ target: "does less", ahead: { peer: "x", why: "does less" } });
    expect(row?.ok).toBeUndefined();
  });

  test("has the misses of all the sections it is given", () => {
    const miss: Row = { what: "pairs", measured: "0.80x", target: ">= 0.85x", ok: false };
    const list = missed([section("of bench", [miss]), section("of bench:peers", [miss])]);
    expect(list).toContain("| of bench | pairs | 0.80x | >= 0.85x |");
    expect(list).toContain("| of bench:peers | pairs | 0.80x | >= 0.85x |");
  });
});

describe("what is published", () => {
  const of = (title: string, when: string): Section => ({
    ...{ title, method: "", rows: [], measured: { when, versions: "x 1", machine: "a machine" } },
  });

  test("a part that is measured again leaves the others their own date", () => {
    const before = {
      "bench:peers": { sections: [of("kept", "on Monday"), of("new", "on Monday")] },
    };
    const sections = [of("new", "on Tuesday")];
    const after = merged(before, "bench:peers", { sections, extent: "some" });
    expect(after["bench:peers"]?.sections.map(origin)).toEqual([
      "Measured on Monday with x 1. a machine.",
      "Measured on Tuesday with x 1. a machine.",
    ]);
    const all = merged(before, "bench:peers", { sections, extent: "all" });
    expect(all["bench:peers"]?.sections).toHaveLength(1);
  });

  test("without the peers nothing is", () => {
    expect(unpublishable([])).toBeUndefined();
    expect(unpublishable(["redlock"])).toContain(
      "nothing was written: the peers could not be installed (asked for: redlock)",
    );
  });

  test("versions are those of the peers that a table names", async () => {
    const row = { what: "import: redlock-universal (1-2)", measured: "1 ms" };
    const versions = await versionsOf({ title: "Import", method: "", rows: [row] });
    expect(versions).toMatch(/^Tenure \d[^,]*, redlock-universal@\d+\.\d+\.\d+$/);
  });
});
