// Generates timings for property tests. All are valid, and many are at the limit of the
// inequalities. They are whole milliseconds, so a test can subtract exactly one.
import fc from "fast-check";
import type { Timing } from "../../../src/core/timing.ts";

/** A fraction in thousandths. Not a double, because fast-check mostly draws doubles close to 0. */
export function partOf(most: number): fc.Arbitrary<number> {
  return fc
    .integer({ min: 0, max: Math.round(most * 1_000) })
    .map((thousandths) => thousandths / 1_000);
}

/** A value of `Random.next()`: at least 0, below 1. */
export const anyDraw: fc.Arbitrary<number> = partOf(0.999);

/**
 * Any timing that satisfies both inequalities of core/timing.ts: the margin covers clock error and
 * round trip, and the ttl covers two renewal intervals, a round trip and the margin. A slack of 0
 * makes the value as small as allowed.
 */
export const validTiming: fc.Arbitrary<Timing> = fc
  .record({
    renewEveryMs: fc.oneof(fc.integer({ min: 1, max: 200 }), fc.integer({ min: 1, max: 20_000 })),
    clockErrorMs: fc.integer({ min: 0, max: 500 }),
    roundTripMs: fc.oneof(fc.integer({ min: 0, max: 50 }), fc.integer({ min: 0, max: 3_000 })),
    marginSlackMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 1_000 })),
    ttlSlackMs: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 30_000 })),
  })
  .map(({ renewEveryMs, clockErrorMs, roundTripMs, marginSlackMs, ttlSlackMs }) => {
    const marginMs = clockErrorMs + roundTripMs + marginSlackMs;
    const ttlMs = 2 * renewEveryMs + roundTripMs + marginMs + ttlSlackMs;
    return { ttlMs, renewEveryMs, clockErrorMs, roundTripMs, marginMs };
  });
