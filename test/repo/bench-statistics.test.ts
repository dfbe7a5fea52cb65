// Goal: a reported number is what its label says: a median, a p99, or the worst of a few values,
// over all rounds. Method: known values go through the functions that the benchmarks use.
import { describe, expect, test } from "vitest";
import { median, quantile, rotate, worstCase } from "../../bench/statistics.ts";

const upTo = (count: number): number[] => Array.from({ length: count }, (_, index) => index + 1);

describe("statistics", () => {
  test("the median of an even number of values is the mean of the middle two, in any order", () => {
    expect(median([4, 1, 3, 2])).toBe(2.5);
    expect(median([30, 10, 20])).toBe(20);
    expect(median([7])).toBe(7);
    expect(median([])).toBeNaN();
  });

  test("a quantile is the smallest value that the given share does not exceed", () => {
    expect(quantile(upTo(100), 0.99)).toBe(99);
    expect(quantile(upTo(300), 0.99)).toBe(297);
    expect(quantile(upTo(4), 0)).toBe(1);
    expect(quantile(upTo(4), 1)).toBe(4);
    expect(quantile([], 0.99)).toBeNaN();
  });

  test("a p99 of fewer than 100 values is labelled as the worst of them", () => {
    expect(worstCase(upTo(99))).toEqual({ label: "worst of 99", value: 99 });
    expect(worstCase(upTo(100))).toEqual({ label: "p99", value: 99 });
  });

  test("rotation puts each item first in turn", () => {
    expect([0, 1, 2, 3].map((by) => rotate(["a", "b", "c"], by).join(""))).toEqual([
      "abc",
      "bca",
      "cab",
      "abc",
    ]);
    expect(rotate([], 3)).toEqual([]);
  });
});
