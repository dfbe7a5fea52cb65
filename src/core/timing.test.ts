// Goal: no configuration that could end in two holders, or in a lease lost to one dropped packet, gets past this door.
// Method: random numbers against the two inequalities written out anew; every mend is applied, and applied one
// millisecond short.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { validTiming } from "../../test/support/holder/holder-timings.ts";
import { InvalidArgumentError } from "./errors.ts";
import {
  checkTiming,
  explainTiming,
  planTiming,
  type Timing,
  TimingError,
  type TimingOptions,
  TTL_MAX_MS,
} from "./timing.ts";

/** Five whole numbers that may or may not fit together; small ones meet at the edge often. */
const anyTiming: fc.Arbitrary<Timing> = fc.constantFrom(20, 1_000, 100_000).chain((most) =>
  fc.record({
    ttlMs: fc.integer({ min: 1, max: 4 * most }),
    renewEveryMs: fc.integer({ min: 1, max: most }),
    clockErrorMs: fc.integer({ min: 0, max: most }),
    roundTripMs: fc.integer({ min: 0, max: most }),
    marginMs: fc.integer({ min: 0, max: 2 * most }),
  }),
);

/** What a caller may write: any of the five, or none. */
const anyOptions: fc.Arbitrary<TimingOptions> = fc.record(
  {
    ttlMs: fc.integer({ min: 1, max: 600_000 }),
    renewEveryMs: fc.integer({ min: 1, max: 100_000 }),
    clockErrorMs: fc.integer({ min: 0, max: 10_000 }),
    roundTripMs: fc.integer({ min: 0, max: 20_000 }),
    marginMs: fc.integer({ min: 0, max: 60_000 }),
  },
  { requiredKeys: [] },
);

function shortfalls(timing: Timing): { safety: number; availability: number } {
  return {
    safety: timing.clockErrorMs + timing.roundTripMs - timing.marginMs,
    availability: 2 * timing.renewEveryMs + timing.roundTripMs - (timing.ttlMs - timing.marginMs),
  };
}

function faultOf(plan: () => unknown): TimingError | undefined {
  try {
    plan();
    return undefined;
  } catch (error) {
    if (error instanceof TimingError) return error;
    throw error;
  }
}

describe("the two inequalities", () => {
  test("S3: five numbers are accepted if and only if both inequalities hold", () => {
    fc.assert(
      fc.property(fc.oneof(anyTiming, validTiming), (timing) => {
        const { safety, availability } = shortfalls(timing);
        const fault = faultOf(() => planTiming(timing));
        expect(fault === undefined).toBe(safety <= 0 && availability <= 0);
      }),
      { numRuns: 1_000 },
    );
  });

  test("a refusal names the broken inequality, safety first, and by how much it is broken", () => {
    fc.assert(
      fc.property(anyTiming, (timing) => {
        const fault = faultOf(() => checkTiming(timing));
        if (fault === undefined) return;
        const { safety, availability } = shortfalls(timing);
        const broken = safety > 0 ? "safety" : "availability";
        const shortByMs = safety > 0 ? safety : availability;
        expect(fault).toMatchObject({ code: "TIMING", inequality: broken, shortByMs });
        expect(fault.message).toContain(`the ${broken} inequality`);
        expect(fault.message).toContain(`by ${shortByMs} ms`);
        for (const [name, ms] of Object.entries(fault.mend)) {
          expect(fault.message).toContain(`${name} ${Number.isInteger(ms) ? ms : ms.toFixed(1)}`);
        }
      }),
      { numRuns: 1_000 },
    );
  });

  test("the mend makes the five numbers valid, and one millisecond less of it does not", () => {
    fc.assert(
      fc.property(anyTiming, (timing) => {
        const mend = faultOf(() => checkTiming(timing))?.mend;
        if (mend === undefined) return;
        const mended = { ...timing, ...mend };
        expect(checkTiming(mended)).toEqual(mended);
        if (mend.marginMs !== undefined) {
          const less = { ...mended, marginMs: mended.marginMs - 1 };
          expect(faultOf(() => checkTiming(less))?.inequality).toBe("safety");
        }
        const less =
          mend.ttlMs !== undefined
            ? { ...mended, ttlMs: mended.ttlMs - 1 }
            : { ...mended, renewEveryMs: mended.renewEveryMs + 1 };
        if (mend.ttlMs !== undefined || mend.renewEveryMs !== undefined) {
          expect(faultOf(() => checkTiming(less))?.inequality).toBe("availability");
        }
      }),
      { numRuns: 1_000 },
    );
  });

  test("a mend never lowers the margin or the ttl, and never renews less often", () => {
    fc.assert(
      fc.property(anyTiming, (timing) => {
        const mended = { ...timing, ...faultOf(() => checkTiming(timing))?.mend };
        expect(mended.marginMs).toBeGreaterThanOrEqual(timing.marginMs);
        expect(mended.ttlMs).toBeGreaterThanOrEqual(timing.ttlMs);
        expect(mended.renewEveryMs).toBeLessThanOrEqual(timing.renewEveryMs);
      }),
    );
  });

  test("a ttl that three does not divide is no fault of the division", () => {
    fc.assert(
      fc.property(fc.integer({ min: 3_000, max: TTL_MAX_MS }), (ttlMs) => {
        expect(planTiming({ ttlMs }).renewEveryMs).toBe(ttlMs / 3);
      }),
    );
  });
});

describe("what a caller leaves out", () => {
  test("the defaults are 10 s, a third, 1 %, a tenth, and the sum of the two bounds", () => {
    expect(planTiming()).toEqual({
      ttlMs: 10_000,
      renewEveryMs: 10_000 / 3,
      clockErrorMs: 100,
      roundTripMs: 1_000,
      marginMs: 1_100,
    });
    expect(planTiming({ ttlMs: 3_000 })).toMatchObject({ clockErrorMs: 30, roundTripMs: 300 });
    expect(planTiming({ ttlMs: 60_000 })).toMatchObject({ clockErrorMs: 600, roundTripMs: 1_000 });
    expect(planTiming({ ttlMs: TTL_MAX_MS }).ttlMs).toBe(86_400_000);
  });

  test("an option that is undefined counts as left out", () => {
    expect(planTiming({ ttlMs: undefined, marginMs: undefined })).toEqual(planTiming());
  });

  test("below 3 s both bounds must be given, and the error proposes them", () => {
    for (const asked of [
      { ttlMs: 2_999 },
      { ttlMs: 1_000, clockErrorMs: 10 },
      { ttlMs: 1_000, roundTripMs: 50 },
    ]) {
      const fault = faultOf(() => planTiming(asked));
      expect(fault).toMatchObject({
        inequality: "bounds",
        shortByMs: 3_000 - asked.ttlMs,
      });
      expect(fault?.message).toMatch(/give clockErrorMs and roundTripMs .* or raise ttlMs to 3000/);
      expect(planTiming({ ...asked, ...fault?.mend })).toMatchObject(asked);
    }
    expect(planTiming({ ttlMs: 500, clockErrorMs: 5, roundTripMs: 50 }).marginMs).toBe(55);
  });

  test("the mend of any refusal, added to what the caller wrote, is accepted", () => {
    fc.assert(
      fc.property(anyOptions, (asked) => {
        const fault = faultOf(() => planTiming(asked));
        if (fault === undefined) return;
        const again = faultOf(() => planTiming({ ...asked, ...fault.mend }));
        expect(again?.message).toBeUndefined();
      }),
      {
        numRuns: 1_000,
        examples: [
          [{ ttlMs: 10_000, roundTripMs: 6_000 }],
          [{ ttlMs: 2_000, clockErrorMs: 1_500 }],
        ],
      },
    );
  });

  test("a mend never asks for a ttl that would be refused as too long", () => {
    const asked = { ttlMs: TTL_MAX_MS, roundTripMs: TTL_MAX_MS / 2, renewEveryMs: 1_000 };
    const fault = faultOf(() => planTiming(asked));
    expect(fault?.mend.ttlMs ?? 0).toBeLessThanOrEqual(TTL_MAX_MS);
  });
});

describe("bad numbers", () => {
  const bad: [string, unknown][] = [
    ["zero", 0],
    ["negative", -1],
    ["not a number", Number.NaN],
    ["endless", Number.POSITIVE_INFINITY],
    ["a string", "10000"],
    ["a bigint", 10_000n],
  ];

  test.each([...bad, ["above 24 h", TTL_MAX_MS + 1]])("a ttl that is %s is refused", (_, ttlMs) => {
    const plan = (): Timing => planTiming({ ttlMs: ttlMs as number });
    expect(plan).toThrow(InvalidArgumentError);
    expect(plan).toThrow(/`ttlMs` must be .* above 0 and at most 86400000 \(24 h\), got/);
  });

  const names = ["renewEveryMs", "clockErrorMs", "roundTripMs", "marginMs"] as const;
  test.each(names)("%s is refused when it is no length of time", (name) => {
    for (const [, value] of bad) {
      const plan = (): Timing => planTiming({ [name]: value as number, ttlMs: 60_000 });
      // Zero is a length of time; a perfect clock may claim it, a renewal may not.
      if (value === 0 && name !== "renewEveryMs") continue;
      expect(plan).toThrow(InvalidArgumentError);
      expect(plan).toThrow(`\`${name}\` must be a number of milliseconds`);
    }
  });

  test("a perfect clock and no round trip leave the whole ttl usable", () => {
    const timing = planTiming({ ttlMs: 60_000, clockErrorMs: 0, roundTripMs: 0 });
    expect(timing.marginMs).toBe(0);
  });
});

describe("explainTiming", () => {
  test("the table shows all five numbers, both slacks and both ends", () => {
    fc.assert(
      fc.property(validTiming, (timing) => {
        const table = explainTiming(timing);
        const shown = (name: string): number => {
          const row = table.split("\n").find((line) => line.startsWith(`${name} `)) ?? "";
          return Number(/^\D+ (-?[0-9.]+) ms {2}\S/.exec(row)?.[1]);
        };
        for (const [name, ms] of Object.entries(timing)) expect(shown(name)).toBeCloseTo(ms, 0);
        const { safety, availability } = shortfalls(timing);
        expect(shown("safety slack")).toBeCloseTo(-safety, 0);
        expect(shown("availability slack")).toBeCloseTo(-availability, 0);
        expect(shown("holder stops after")).toBe(timing.ttlMs - timing.marginMs);
        expect(shown("crash gap at most")).toBe(timing.ttlMs + timing.roundTripMs);
      }),
    );
  });

  test("the default table says how often the store is asked", () => {
    expect(explainTiming(planTiming())).toMatch(
      /^renewEveryMs +3333\.3 ms {2}18 renewals a minute/m,
    );
  });
});
