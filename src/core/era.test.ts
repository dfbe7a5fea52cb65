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
  test("S1: is above the last known token by the gap, and not below the clock", () => {
    fc.assert(
      fc.property(token, clock, (last, now) => {
        const floor = startOfEra(last, now);
        expect(floor).toBeGreaterThanOrEqual(last + ERA_GAP);
        expect(floor).toBeGreaterThanOrEqual(now);
        expect(nextToken({ last, floor, clock: now })).toBeGreaterThanOrEqual(floor);
      }),
    );
  });

  test("S1: after losing everything, the clock alone is above a counter that granted less often than once a microsecond", () => {
    fc.assert(
      fc.property(clock, fc.nat(1_000_000), fc.nat(1_000_000), (began, grants, spare) => {
        let last = startOfEra(0n, began);
        last += BigInt(grants);
        const lost = began + BigInt(grants) + BigInt(spare) + ERA_GAP + 1n;
        expect(
          nextToken({ last: undefined, floor: startOfEra(0n, lost), clock: lost }),
        ).toBeGreaterThan(last);
      }),
    );
  });

  test("a resource that the era has not seen starts at the clock when that is above the floor", () => {
    expect(nextToken({ last: undefined, floor: 10n, clock: 50n })).toBe(50n);
    expect(nextToken({ last: 9n, floor: 10n, clock: 5n })).toBe(10n);
  });

  test("S1: of two replicas that know the same token, the one that is promoted later starts above all that the first granted", () => {
    fc.assert(
      fc.property(
        clock,
        fc.nat(200_000_000),
        fc.nat(1_000_000),
        fc.nat(1_000_000),
        (last, age, grants, pause) => {
          const promoted = last + BigInt(age);
          const first = startOfEra(last, promoted) + BigInt(grants);
          const later = promoted + BigInt(grants) + BigInt(pause) + 1n;
          expect(startOfEra(last, later)).toBeGreaterThan(first);
        },
      ),
    );
  });

  test("starts right above the last token where the clock is the same one", () => {
    expect(startOfEra(70n, 50n, 1n)).toBe(71n);
    expect(startOfEra(70n, 90n, 1n)).toBe(90n);
  });
});

test("a clock is read as whole microseconds, and one before 1970 as 1", () => {
  expect(clockToken(1_700_000_000_000.5)).toBe(1_700_000_000_000_500n);
  expect(clockToken(-5)).toBe(1n);
  expect(clockToken(Date.UTC(2255, 0))).toBeLessThan(2n ** 53n);
});
