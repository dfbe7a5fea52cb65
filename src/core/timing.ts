// The five durations of a lease and the two inequalities between them. A configuration that
// breaks one is rejected here, before any request. Otherwise it would lead to two holders (safety)
// or to a lease that one lost packet ends (availability).

import { InvalidArgumentError, TenureError } from "./errors.ts";
import { checkOptionNames, type OptionNames } from "./options.ts";

export const TTL_MAX_MS: number = 24 * 60 * 60 * 1000;
/**
 * Below this ttl, default bounds would be a guess about the user's network, so the user must state
 * them.
 */
const EXPLICIT_BELOW_MS = 3_000;

/** All in milliseconds. */
export interface Timing {
  /**
   * How long a grant lasts without renewal. Too small: a pause or a slow network loses the lease.
   * Too large: after a crash the resource stays idle that long. @default 10000
   */
  readonly ttlMs: number;
  /**
   * How often the session is renewed. Too small: needless load on the store. Too large: one lost
   * renewal loses the lease. @default ttlMs / 3
   */
  readonly renewEveryMs: number;
  /**
   * How far the clocks of holder and store may differ over one ttl. Too small: two holders if a
   * clock runs slow. Too large: the holder stops earlier than necessary. @default 1 % of ttlMs, at
   * least 20
   */
  readonly clockErrorMs: number;
  /**
   * The slowest round trip that counts as healthy. A renewal that takes longer puts the lease in
   * doubt. Too small: short delays cause doubt. Too large: a dead connection is noticed late.
   * @default a tenth of ttlMs, at most 1000
   */
  readonly roundTripMs: number;
  /**
   * How long before the store's expiry the holder stops. Too small: rejected. Too large: less of
   * the ttl is usable.
   * @default clockErrorMs + roundTripMs
   */
  readonly marginMs: number;
}

/** Each duration has a default. */
export type TimingOptions = { readonly [Name in keyof Timing]?: Timing[Name] | undefined };

export const TIMING_OPTIONS: OptionNames<TimingOptions> = {
  ttlMs: true,
  renewEveryMs: true,
  clockErrorMs: true,
  roundTripMs: true,
  marginMs: true,
};

/**
 * The two inequalities, and the rule that a ttl below 3 s needs explicit values for `clockErrorMs`
 * and `roundTripMs`.
 */
export type TimingRule = "safety" | "availability" | "explicitBounds";

/** The five durations contradict each other. */
export class TimingError extends TenureError {
  /** The rule that the numbers break. */
  readonly rule: TimingRule;
  /** By how much they break it. */
  readonly shortByMs: number;
  /** The smallest change that makes the numbers valid. */
  readonly fix: Partial<Timing>;

  constructor(
    message: string,
    facts: {
      readonly rule: TimingRule;
      readonly shortByMs: number;
      readonly fix: Partial<Timing>;
    },
  ) {
    super(message, { code: "TIMING", retryable: false });
    this.rule = facts.rule;
    this.shortByMs = facts.shortByMs;
    this.fix = facts.fix;
  }
}

const DEFAULT_TTL_MS = 10_000;

/**
 * Fills in the defaults, then checks every duration and both inequalities. Throws TimingError or
 * InvalidArgumentError.
 */
export function planTiming(asked: TimingOptions = {}): Timing {
  checkOptionNames("planTiming()", asked, TIMING_OPTIONS);
  const ttlMs = checkTtl(asked.ttlMs ?? DEFAULT_TTL_MS);
  const bounds = checkNumbers(asked);
  if (
    ttlMs < EXPLICIT_BELOW_MS &&
    (bounds.clockErrorMs === undefined || bounds.roundTripMs === undefined)
  ) {
    throw missingBounds(ttlMs, bounds);
  }
  const clockErrorMs = bounds.clockErrorMs ?? Math.max(20, ttlMs / 100);
  const roundTripMs = bounds.roundTripMs ?? Math.min(1_000, ttlMs / 10);
  const timing = {
    ttlMs,
    renewEveryMs: bounds.renewEveryMs ?? ttlMs / 3,
    clockErrorMs,
    roundTripMs,
    marginMs: bounds.marginMs ?? clockErrorMs + roundTripMs,
  };
  return checkTiming(timing, asked);
}

/** Checks both inequalities. Called again with the ttl that a store has actually granted. */
export function checkTiming(timing: Timing, asked: TimingOptions = timing): Timing {
  const { ttlMs, renewEveryMs, clockErrorMs, roundTripMs, marginMs } = timing;
  const broken = (rule: TimingRule, formula: string, shortByMs: number): TimingError => {
    const fix = findSmallestFix(timing, asked);
    return new TimingError(
      `These numbers break the ${rule} inequality ${formula} by ${formatMs(shortByMs)} ms: ` +
        `${describe(timing)}. The smallest change that fixes it: ${describe(fix)}.`,
      { rule, shortByMs, fix },
    );
  };
  const needed = clockErrorMs + roundTripMs;
  if (marginMs < needed)
    throw broken("safety", "marginMs >= clockErrorMs + roundTripMs", needed - marginMs);
  const used = 2 * renewEveryMs + roundTripMs;
  const usable = ttlMs - marginMs;
  // A third of a ttl is not exact in floating point, so allow a billionth of a millisecond.
  if (used > usable + 1e-9) {
    const formula = "2 * renewEveryMs + roundTripMs <= ttlMs - marginMs";
    throw broken("availability", formula, used - usable);
  }
  return timing;
}

/**
 * A table for people: the durations, the slack of both inequalities, and the longest gap after a
 * crash.
 */
export function explainTiming(timing: Timing): string {
  const { ttlMs, renewEveryMs, clockErrorMs, roundTripMs, marginMs } = timing;
  const safetySlack = marginMs - clockErrorMs - roundTripMs;
  const perMinute = formatMs(60_000 / renewEveryMs);
  const rows: [string, number, string][] = [
    ["ttlMs", ttlMs, "a grant lasts this long without renewal"],
    ["renewEveryMs", renewEveryMs, `${perMinute} renewals a minute, however many leases`],
    ["clockErrorMs", clockErrorMs, "two clocks may differ by this much over one ttl"],
    ["roundTripMs", roundTripMs, "a slower renewal puts the lease in doubt"],
    ["marginMs", marginMs, "the holder stops this long before the store's expiry"],
    ["safety slack", safetySlack, "margin - clock error - round trip"],
    [
      "availability slack",
      availabilitySlack(timing),
      "ttl - margin - 2 renewals - round trip: one may be lost",
    ],
    ["holder stops after", ttlMs - marginMs, "after it sent the last confirmed renewal"],
    ["crash gap at most", ttlMs + roundTripMs, "until a waiter holds, plus the store's own sweep"],
  ];
  return rows
    .map(([name, ms, meaning]) => `${name.padEnd(19)}${formatMs(ms).padStart(10)} ms  ${meaning}`)
    .join("\n");
}

/** The part of the usable ttl that is left after one lost renewal. */
export function availabilitySlack(timing: Timing): number {
  return timing.ttlMs - timing.marginMs - 2 * timing.renewEveryMs - timing.roundTripMs;
}

function formatMs(ms: number): string {
  return Number.isInteger(ms) ? String(ms) : ms.toFixed(1);
}

function checkTtl(ttlMs: unknown): number {
  if (typeof ttlMs !== "number" || !Number.isFinite(ttlMs) || ttlMs <= 0 || ttlMs > TTL_MAX_MS) {
    throw new InvalidArgumentError(
      `\`ttlMs\` must be a number of milliseconds above 0 and at most ${TTL_MAX_MS} (24 h), got ${String(ttlMs)}.`,
    );
  }
  return ttlMs;
}

function checkNumbers(asked: TimingOptions): TimingOptions {
  for (const name of ["renewEveryMs", "clockErrorMs", "roundTripMs", "marginMs"] as const) {
    const value: unknown = asked[name];
    if (value === undefined) continue;
    const lowest = name === "renewEveryMs" ? 1 : 0;
    if (typeof value !== "number" || !Number.isFinite(value) || value < lowest) {
      throw new InvalidArgumentError(
        `\`${name}\` must be a number of milliseconds, at least ${lowest}, got ${String(value)}.`,
      );
    }
  }
  return asked;
}

function missingBounds(ttlMs: number, asked: TimingOptions): TimingError {
  const proposed = {
    clockErrorMs: asked.clockErrorMs ?? ttlMs / 100,
    roundTripMs: asked.roundTripMs ?? ttlMs / 10,
  };
  const fix = { ...proposed, ...findRemainingFix({ ...asked, ttlMs, ...proposed }) };
  return new TimingError(
    `A ttlMs of ${ttlMs} is below ${EXPLICIT_BELOW_MS}: give clockErrorMs and roundTripMs yourself, from what you ` +
      `measured (for example ${describe(fix)}), or raise ttlMs to ${EXPLICIT_BELOW_MS}.`,
    { rule: "explicitBounds", shortByMs: EXPLICIT_BELOW_MS - ttlMs, fix },
  );
}

/** The change that the proposed numbers still need. */
function findRemainingFix(proposed: TimingOptions): Partial<Timing> {
  try {
    planTiming(proposed);
    return {};
  } catch (error) {
    if (error instanceof TimingError) return error.fix;
    throw error;
  }
}

/**
 * Raises the margin to what safety needs, then renews more often. If that is not enough, raises
 * the ttl, and if no ttl is long enough, shortens the bounds. A new ttl comes with the durations
 * that the caller left out, because their defaults would grow with it.
 */
function findSmallestFix(timing: Timing, asked: TimingOptions): Partial<Timing> {
  const marginMs = Math.max(timing.marginMs, timing.clockErrorMs + timing.roundTripMs);
  const room = timing.ttlMs - marginMs - timing.roundTripMs;
  const margin = marginMs === timing.marginMs ? {} : { marginMs };
  if (room >= 2 * timing.renewEveryMs) return margin;
  const renewEveryMs = Math.floor(room / 2);
  if (renewEveryMs >= 1) return { ...margin, renewEveryMs };
  const longer = withLongerTtl({ ...timing, marginMs });
  const fixed = longer.ttlMs <= TTL_MAX_MS ? longer : withLongerTtl(withShorterBounds(timing));
  const names = Object.keys(fixed) as (keyof Timing)[];
  const needed = names.filter((name) => fixed[name] !== timing[name] || asked[name] === undefined);
  return Object.fromEntries(needed.map((name) => [name, fixed[name]]));
}

function withLongerTtl(timing: Timing): Timing {
  const renewEveryMs = Math.max(1, timing.renewEveryMs);
  const ttlMs = Math.ceil(2 * renewEveryMs + timing.roundTripMs + timing.marginMs);
  return { ...timing, renewEveryMs, ttlMs };
}

/** Bounds that fit the longest ttl with some slack. */
function withShorterBounds(timing: Timing): Timing {
  const atMost = (ms: number): number => Math.min(ms, TTL_MAX_MS / 6);
  const clockErrorMs = atMost(timing.clockErrorMs);
  const roundTripMs = atMost(timing.roundTripMs);
  const marginMs = clockErrorMs + roundTripMs;
  const renewEveryMs = atMost(timing.renewEveryMs);
  return { ...timing, renewEveryMs, clockErrorMs, roundTripMs, marginMs };
}

function describe(numbers: Partial<Timing>): string {
  return Object.entries(numbers)
    .map(([name, ms]) => `${name} ${formatMs(ms)}`)
    .join(", ");
}
