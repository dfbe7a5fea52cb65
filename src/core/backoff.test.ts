// Goal: delays are spread out, never zero and never above the cap. Method: properties over any
// backoff, number of failures and draw.
import fc from "fast-check";
import { expect, test } from "vitest";
import { anyDraw } from "../../test/support/holder/holder-timings.ts";
import { backoffMs } from "./backoff.ts";

const backoff = fc
  .record({ baseMs: fc.integer({ min: 1, max: 1_000 }), more: fc.integer({ min: 0, max: 60_000 }) })
  .map(({ baseMs, more }) => ({ baseMs, capMs: baseMs + more }));
const failures = fc.integer({ min: 1, max: 10_000 });
const draw = anyDraw;

test("a delay is between half and all of its full length, and at most the cap", () => {
  fc.assert(
    fc.property(backoff, failures, draw, (settings, count, chance) => {
      const full = Math.min(settings.capMs, settings.baseMs * 2 ** (count - 1));
      const waitMs = backoffMs(settings, count, chance);
      expect(waitMs).toBeGreaterThanOrEqual(full / 2);
      expect(waitMs).toBeLessThanOrEqual(full);
      expect(waitMs).toBeLessThanOrEqual(settings.capMs);
    }),
  );
});

test("with the same draw, a later failure never has a shorter delay", () => {
  fc.assert(
    fc.property(backoff, failures, draw, (settings, count, chance) => {
      const next = backoffMs(settings, count + 1, chance);
      expect(next).toBeGreaterThanOrEqual(backoffMs(settings, count, chance));
    }),
  );
});

test("different draws give different delays", () => {
  const settings = { baseMs: 100, capMs: 1_000 };
  expect([0, 0.25, 0.5, 0.75].map((chance) => backoffMs(settings, 1, chance))).toEqual([
    50, 62.5, 75, 87.5,
  ]);
});

test("a count below one is treated as the first failure", () => {
  const settings = { baseMs: 100, capMs: 1_000 };
  for (const count of [0, -5]) expect(backoffMs(settings, count, 0)).toBe(50);
});
