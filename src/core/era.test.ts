// Goal: tokens go up whatever a store has forgotten, as long as the clock was not set back. Method: properties.
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
  test("S1: is above the last known token by the gap, by half of it if the clock is behind, and not below the clock", () => {
    fc.assert(
      fc.property(token, clock, (last, now) => {
        const floor = startOfEra(last, now);
        expect(floor).toBeGreaterThanOrEqual(last + (now < last ? ERA_GAP / 2n : ERA_GAP));
        expect(floor).toBeGreaterThanOrEqual(now);
        expect(nextToken({ last, floor, clock: now })).toBeGreaterThanOrEqual(floor);
      }),
    );
  });

  test("S1: after losing everything, the clock alone is above a counter that granted less often than once a microsecond", () => {
    const grants = fc.bigInt({ min: 0n, max: 1_000_000n });
    fc.assert(
      fc.property(clock, grants, grants, (began, granted, spare) => {
        const last = startOfEra(0n, began + ERA_GAP * 2n) + granted;
        const now = began + ERA_GAP * 2n + granted + spare + 1n;
        expect(nextToken({ last: undefined, floor: 1n, clock: now })).toBeGreaterThan(last);
      }),
    );
  });

  test("S1: of two replicas that know the same token, the one that is promoted later starts above all that the first granted", () => {
    const age = fc.bigInt({ min: -ERA_GAP, max: 3n * ERA_GAP });
    const grants = fc.bigInt({ min: 0n, max: 1_000_000n });
    fc.assert(
      fc.property(
        fc.bigInt(ERA_GAP, 2n ** 53n),
        age,
        grants,
        grants,
        (last, old, granted, pause) => {
          const promoted = last + old;
          const highest = startOfEra(last, promoted) + granted;
          // Less than one grant in two microseconds.
          const later = promoted + 2n * granted + pause + 2n;
          expect(startOfEra(last, later)).toBeGreaterThan(highest);
        },
      ),
    );
  });

  test("is at the clock when the last era started two gaps ago or more", () => {
    const last = 2n ** 50n;
    expect(startOfEra(last, last + 2n * ERA_GAP)).toBe(last + 2n * ERA_GAP);
    expect(startOfEra(0n, last)).toBe(last);
  });

  test("a resource that the era has not seen starts at the clock when that is above the floor", () => {
    expect(nextToken({ last: undefined, floor: 10n, clock: 50n })).toBe(50n);
    expect(nextToken({ last: 9n, floor: 10n, clock: 5n })).toBe(10n);
  });
});

test("a clock is read as whole microseconds, and one before 1970 as 1", () => {
  expect(clockToken(1_700_000_000_000.5)).toBe(1_700_000_000_000_500n);
  expect(clockToken(-5)).toBe(1n);
  expect(clockToken(Date.UTC(2255, 0))).toBeLessThan(2n ** 53n);
});
