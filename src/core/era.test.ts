// Goal: tokens go up even if a store has lost data, unless its clock was set back. Method:
// properties.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { clockToken, ERA_GAP, nextToken, startOfEra } from "./era.ts";

const token = fc.bigInt({ min: 1n, max: 2n ** 100n });
const clock = fc.bigInt({ min: 0n, max: 2n ** 53n });

describe("within an era", () => {
  test("S1: tokens go up by one per grant", () => {
    fc.assert(
      fc.property(token, token, clock, (floor, ahead, now) => {
        const last = floor + ahead;
        expect(nextToken({ last, floor, clock: now })).toBe(last + 1n);
      }),
    );
  });
});

describe("a new era", () => {
  test("S1: starts above the last known token by the gap (a quarter of it if the clock is behind), and not below the clock", () => {
    fc.assert(
      fc.property(token, clock, (last, now) => {
        const floor = startOfEra(last, now);
        expect(floor).toBeGreaterThanOrEqual(last + (now < last ? ERA_GAP / 4n : ERA_GAP));
        expect(floor).toBeGreaterThanOrEqual(now);
        expect(nextToken({ last, floor, clock: now })).toBeGreaterThanOrEqual(floor);
      }),
    );
  });

  test("S1: after total data loss, the clock is above a counter that granted less often than once per microsecond", () => {
    const grants = fc.bigInt({ min: 0n, max: 1_000_000n });
    fc.assert(
      fc.property(clock, grants, grants, (began, granted, spare) => {
        const last = startOfEra(0n, began + ERA_GAP * 8n) + granted;
        const now = began + ERA_GAP * 8n + granted + spare + 1n;
        expect(nextToken({ last: undefined, floor: 1n, clock: now })).toBeGreaterThan(last);
      }),
    );
  });

  test("S1: of two replicas, the one promoted later starts above all tokens of the first, even if it knows older tokens", () => {
    const age = fc.bigInt({ min: 0n, max: 10n * ERA_GAP });
    const grants = fc.bigInt({ min: 0n, max: 1_000_000n });
    const missed = fc.bigInt({ min: 0n, max: 10_000_000n });
    fc.assert(
      fc.property(
        fc.bigInt(2n ** 50n, 2n ** 53n),
        age,
        grants,
        missed,
        (last, old, granted, lost) => {
          const promoted = last + old;
          const highest = startOfEra(last, promoted) + granted;
          // Fewer than one grant per two microseconds, and a seventh of the time that was missed.
          const later = promoted + 2n * granted + lost / 7n + 2n;
          expect(startOfEra(last - lost, later)).toBeGreaterThan(highest);
        },
      ),
    );
  });

  test("S1: the same if tokens are up to 22 minutes ahead of the clock, at 500 grants per second", () => {
    const ahead = fc.bigInt({ min: 0n, max: 20n * ERA_GAP });
    fc.assert(
      fc.property(fc.bigInt(2n ** 50n, 2n ** 60n), ahead, (last, by) => {
        const highest = startOfEra(last, last - by) + 500n;
        expect(startOfEra(last, last - by + 1_000_000n)).toBeGreaterThan(highest);
      }),
    );
  });

  test("starts at the clock when the last era started at least eight gaps ago", () => {
    const last = 2n ** 50n;
    expect(startOfEra(last, last + 8n * ERA_GAP)).toBe(last + 8n * ERA_GAP);
    expect(startOfEra(0n, last)).toBe(last);
  });

  test("a resource without a token in this era starts at the clock if that is above the floor", () => {
    expect(nextToken({ last: undefined, floor: 10n, clock: 50n })).toBe(50n);
    expect(nextToken({ last: 9n, floor: 10n, clock: 5n })).toBe(10n);
  });
});

test("a clock is converted to whole microseconds, and a time before 1970 to 1", () => {
  expect(clockToken(1_700_000_000_000.5)).toBe(1_700_000_000_000_500n);
  expect(clockToken(-5)).toBe(1n);
  expect(clockToken(Date.UTC(2255, 0))).toBeLessThan(2n ** 53n);
});
