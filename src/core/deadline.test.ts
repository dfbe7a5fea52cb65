// Goal: S3, the holder stops before the store can grant the lease to another holder, with any
// network delay and any clock error within the stated bound. Method: two clocks with random rates
// and offsets, compared in true time; random instants of sending, handling and replying; the
// deadline comes from the session machine, as in the holder.
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { partOf, validTiming } from "../../test/support/holder/holder-timings.ts";
import { marginOver, safeUntil } from "./deadline.ts";
import { openSession, stepSession } from "./session-machine.ts";
import { planTiming, type Timing } from "./timing.ts";

/** The rounding error of 64-bit floats at the values used here. */
const ROUNDING_MS = 1e-6;

/** One request in true time, and the two clocks that measure it. */
const exchange = fc.record({
  timing: validTiming,
  sentAt: fc.integer({ min: 0, max: 1_000_000 }),
  toStoreMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 20_000 })),
  toHolderMs: fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 20_000 })),
  /** The rate of the store's clock. The rate of the holder's clock is relative to it. */
  storeRate: partOf(1.5).map((more) => 0.5 + more),
  /**
   * How much the holder's clock gains (or loses) over one ttl of the store, as a fraction of
   * clockErrorMs.
   */
  disagreement: fc.oneof(
    fc.constantFrom(-1, 1),
    partOf(2).map((more) => more - 1),
  ),
  holderOffset: fc.integer({ min: -1_000_000, max: 1_000_000 }),
});

type Exchange = typeof exchange extends fc.Arbitrary<infer T> ? T : never;

/** The store's expiry and the holder's clock, as functions of true time. */
function simulate(drawn: Exchange): {
  readonly storeEndsAt: number;
  readonly holderShows: (trueAt: number) => number;
  readonly trueAt: (holderShows: number) => number;
} {
  const { timing, storeRate, disagreement, holderOffset } = drawn;
  const ttlMs = timing.ttlMs;
  const holderRate = (storeRate * (ttlMs + disagreement * timing.clockErrorMs)) / ttlMs;
  return {
    storeEndsAt: drawn.sentAt + drawn.toStoreMs + ttlMs / storeRate,
    holderShows: (trueAt) => holderOffset + trueAt * holderRate,
    trueAt: (shown) => (shown - holderOffset) / holderRate,
  };
}

function grantedUntil(drawn: Exchange): number | undefined {
  const { holderShows } = simulate(drawn);
  const { sentAt, toStoreMs, toHolderMs, timing } = drawn;
  const answer = {
    sentAt: holderShows(sentAt),
    now: holderShows(sentAt + toStoreMs + toHolderMs),
    grantedTtlMs: timing.ttlMs,
  };
  const { state } = openSession(answer, timing);
  return state.kind === "ended" ? undefined : state.safeUntil;
}

describe("safeUntil", () => {
  test("S3: it is never after the store's own expiry in true time", () => {
    fc.assert(
      fc.property(exchange, (drawn) => {
        const until = grantedUntil(drawn);
        if (until === undefined) return;
        const { storeEndsAt, trueAt } = simulate(drawn);
        expect(trueAt(until)).toBeLessThanOrEqual(storeEndsAt + ROUNDING_MS);
      }),
      { numRuns: 2_000 },
    );
  });

  test("S3: a request sent at the last moment arrives within one round trip, before the store's expiry", () => {
    fc.assert(
      fc.property(exchange, (drawn) => {
        const until = grantedUntil(drawn);
        if (until === undefined) return;
        const { storeEndsAt, trueAt } = simulate(drawn);
        const arrives = trueAt(until + drawn.timing.roundTripMs);
        expect(arrives).toBeLessThanOrEqual(storeEndsAt + ROUNDING_MS);
      }),
      { numRuns: 2_000 },
    );
  });

  test("S3: a renewal counts from when it was sent, however late its reply arrives", () => {
    fc.assert(
      fc.property(exchange, partOf(1), (drawn, part) => {
        const { timing, sentAt } = drawn;
        const opened = { sentAt, now: sentAt, grantedTtlMs: timing.ttlMs };
        const { state } = openSession(opened, timing);
        if (state.kind === "ended") return;
        const renewalSentAt = sentAt + Math.min(timing.renewEveryMs, timing.ttlMs / 2);
        const now = renewalSentAt + (state.safeUntil - renewalSentAt) * part;
        const renewed = {
          type: "renewed",
          sentAt: renewalSentAt,
          grantedTtlMs: timing.ttlMs,
          now,
        } as const;
        const after = stepSession(state, renewed, timing).state;
        if (after.kind === "ended") expect(now).toBeGreaterThanOrEqual(state.safeUntil);
        else expect(after.safeUntil).toBe(renewalSentAt + timing.ttlMs - timing.marginMs);
      }),
    );
  });

  test("the granted ttl counts, not the requested one", () => {
    const timing: Timing = {
      ttlMs: 10_000,
      renewEveryMs: 3_000,
      clockErrorMs: 100,
      roundTripMs: 900,
      marginMs: 1_000,
    };
    expect(safeUntil({ sentAt: 500, grantedTtlMs: 9_000 }, timing.marginMs)).toBe(8_500);
    const { state } = openSession({ sentAt: 500, grantedTtlMs: 9_000, now: 510 }, timing);
    expect(state).toMatchObject({ kind: "confirmed", safeUntil: 8_500 });
  });
});

test("S3: the margin grows when a store grants a longer ttl than requested", () => {
  // Requested 1 s, granted 2 s, as etcd does. The holder's clock is slow by the full stated error.
  const timing = planTiming({
    ttlMs: 1_000,
    clockErrorMs: 50,
    roundTripMs: 100,
    renewEveryMs: 300,
  });
  const grantedTtlMs = 2_000;
  const { state } = openSession({ sentAt: 0, now: 1, grantedTtlMs }, timing);
  const slowness = 1 - timing.clockErrorMs / timing.ttlMs;
  const trueMs = (state.kind === "ended" ? 0 : state.safeUntil) / slowness;
  expect(trueMs + timing.roundTripMs).toBeLessThanOrEqual(grantedTtlMs);
  // A shorter grant does not reduce the margin.
  expect(marginOver(500, timing)).toBe(timing.marginMs);
});
