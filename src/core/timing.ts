// The five numbers of a lease and the two inequalities between them. A configuration that breaks one is refused here,
// before any request, because later it would show as two holders (safety) or as a lease lost to one dropped packet
// (availability).

import { InvalidArgumentError, TenureError } from "./errors.ts";
import { checkOptionNames, type OptionNames } from "./options.ts";

export const TTL_MAX_MS: number = 24 * 60 * 60 * 1000;
/** Below this ttl a default for the bounds would be a guess about the user's network, so they must be given. */
const EXPLICIT_BELOW_MS = 3_000;

/** The five numbers, all in milliseconds. */
export interface Timing {
  /**
   * How long a grant lasts without renewal. Too small: a pause or a slow network loses the lease. Too large: after a
   * crash the resource stays idle that long. @default 10000
   */
  readonly ttlMs: number;
  /**
   * How often the session is renewed. Too small: load on the store for nothing. Too large: one lost renewal loses the
   * lease. @default ttlMs / 3
   */
  readonly renewEveryMs: number;
  /**
   * How far holder and store may disagree on the length of one ttl. Too small: two holders when a clock runs slow. Too
   * large: the holder stops early for nothing. @default 1 % of ttlMs, at least 20
   */
  readonly clockErrorMs: number;
  /**
   * The slowest round trip that still counts as healthy; a renewal that takes longer puts the lease in doubt. Too
   * small: doubt on every hiccup. Too large: a dead connection is noticed late. @default a tenth of ttlMs, at most 1000
   */
  readonly roundTripMs: number;
  /**
   * How long before the store's expiry the holder stops. Too small: refused. Too large: less of the ttl is usable.
   * @default clockErrorMs + roundTripMs
   */
  readonly marginMs: number;
}

/** What a caller may leave out. */
export type TimingOptions = { readonly [Name in keyof Timing]?: Timing[Name] | undefined };

export const TIMING_OPTIONS: OptionNames<TimingOptions> = {
  ttlMs: true,
  renewEveryMs: true,
  clockErrorMs: true,
  roundTripMs: true,
  marginMs: true,
};

export type Inequality = "safety" | "availability" | "bounds";

/** The numbers contradict each other. `mend` has the smallest change that makes them valid. */
export class TimingError extends TenureError {
  readonly inequality: Inequality;
  readonly shortByMs: number;
  readonly mend: Partial<Timing>;

  constructor(
    message: string,
    fault: { inequality: Inequality; shortByMs: number; mend: Partial<Timing> },
  ) {
    super(message, { code: "TIMING", retryable: false });
    this.inequality = fault.inequality;
    this.shortByMs = fault.shortByMs;
    this.mend = fault.mend;
  }
}

const DEFAULT_TTL_MS = 10_000;

/** Fills in the defaults, checks every number and both inequalities; throws what is wrong. */
export function planTiming(asked: TimingOptions = {}): Timing {
  checkOptionNames("planTiming()", asked, TIMING_OPTIONS);
  const ttlMs = checkTtl(asked.ttlMs ?? DEFAULT_TTL_MS);
  const bounds = checkNumbers(asked);
  if (
    ttlMs < EXPLICIT_BELOW_MS &&
    (bounds.clockErrorMs === undefined || bounds.roundTripMs === undefined)
  ) {
    throw needsBounds(ttlMs, bounds);
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

/** Both inequalities, on numbers that are complete. Also asked again with the ttl that a store really granted. */
export function checkTiming(timing: Timing, asked: TimingOptions = timing): Timing {
  const needed = timing.clockErrorMs + timing.roundTripMs;
  if (timing.marginMs < needed) {
    const rule = "marginMs >= clockErrorMs + roundTripMs";
    throw broken(
      { inequality: "safety", shortByMs: needed - timing.marginMs, rule },
      timing,
      asked,
    );
  }
  const used = 2 * timing.renewEveryMs + timing.roundTripMs;
  const usable = timing.ttlMs - timing.marginMs;
  // A ttl divided by three is not exact; a billionth of a millisecond is no fault.
  if (used > usable + 1e-9) {
    const rule = "2 * renewEveryMs + roundTripMs <= ttlMs - marginMs";
    throw broken({ inequality: "availability", shortByMs: used - usable, rule }, timing, asked);
  }
  return timing;
}

/** A table for people: the numbers, both inequalities with their slack, and what they mean on the worst night. */
export function explainTiming(timing: Timing): string {
  const rows: [string, number, string][] = [
    ["ttlMs", timing.ttlMs, "a grant lasts this long without renewal"],
    [
      "renewEveryMs",
      timing.renewEveryMs,
      `${perMinute(timing)} renewals a minute, however many leases`,
    ],
    [
      "clockErrorMs",
      timing.clockErrorMs,
      "holder and store may disagree by this much over one ttl",
    ],
    ["roundTripMs", timing.roundTripMs, "a slower renewal puts the lease in doubt"],
    ["marginMs", timing.marginMs, "the holder stops this long before the store lets go"],
    [
      "safety slack",
      timing.marginMs - timing.clockErrorMs - timing.roundTripMs,
      "margin - clock error - round trip",
    ],
    [
      "availability slack",
      slackOf(timing),
      "ttl - margin - 2 renewals - round trip: one may be lost",
    ],
    [
      "holder stops after",
      timing.ttlMs - timing.marginMs,
      "counted from the last confirmed renewal's sending",
    ],
    [
      "crash gap at most",
      timing.ttlMs + timing.roundTripMs,
      "until a waiter holds, plus the store's own sweep",
    ],
  ];
  return rows
    .map(([name, ms, meaning]) => `${name.padEnd(19)}${shown(ms).padStart(10)} ms  ${meaning}`)
    .join("\n");
}

/** What is left of the usable ttl after one lost renewal. */
export function slackOf(timing: Timing): number {
  return timing.ttlMs - timing.marginMs - 2 * timing.renewEveryMs - timing.roundTripMs;
}

function perMinute(timing: Timing): string {
  return shown(60_000 / timing.renewEveryMs);
}

function shown(ms: number): string {
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

function needsBounds(ttlMs: number, asked: TimingOptions): TimingError {
  const proposed = {
    clockErrorMs: asked.clockErrorMs ?? ttlMs / 100,
    roundTripMs: asked.roundTripMs ?? ttlMs / 10,
  };
  const mend = { ...proposed, ...mendOf({ ...asked, ttlMs, ...proposed }) };
  return new TimingError(
    `A ttlMs of ${ttlMs} is below ${EXPLICIT_BELOW_MS}: give clockErrorMs and roundTripMs yourself, from what you ` +
      `measured (for example ${describe(mend)}), or raise ttlMs to ${EXPLICIT_BELOW_MS}.`,
    { inequality: "bounds", shortByMs: EXPLICIT_BELOW_MS - ttlMs, mend },
  );
}

/** What is still wrong with the proposed numbers, mended. */
function mendOf(proposed: TimingOptions): Partial<Timing> {
  try {
    planTiming(proposed);
    return {};
  } catch (error) {
    if (error instanceof TimingError) return error.mend;
    throw error;
  }
}

function broken(
  fault: { readonly inequality: Inequality; readonly shortByMs: number; readonly rule: string },
  timing: Timing,
  asked: TimingOptions,
): TimingError {
  const { inequality, shortByMs, rule } = fault;
  const mend = smallestMend(timing, asked);
  return new TimingError(
    `These numbers break the ${inequality} inequality ${rule} by ${shown(shortByMs)} ms: ` +
      `${describe(timing)}. The smallest change that mends it: ${describe(mend)}.`,
    { inequality, shortByMs, mend },
  );
}

/**
 * Raise the margin to what safety needs, then renew more often; only when that is impossible, raise the ttl; and when no
 * ttl is long enough, shorten the bounds. A new ttl comes with the numbers that the caller left out, because their
 * defaults would grow with it.
 */
function smallestMend(timing: Timing, asked: TimingOptions): Partial<Timing> {
  const marginMs = Math.max(timing.marginMs, timing.clockErrorMs + timing.roundTripMs);
  const room = timing.ttlMs - marginMs - timing.roundTripMs;
  const margin = marginMs === timing.marginMs ? {} : { marginMs };
  if (room >= 2 * timing.renewEveryMs) return margin;
  const renewEveryMs = Math.floor(room / 2);
  if (renewEveryMs >= 1) return { ...margin, renewEveryMs };
  const longer = longEnough({ ...timing, marginMs });
  const mended = longer.ttlMs <= TTL_MAX_MS ? longer : longEnough(shortened(timing));
  const names = Object.keys(mended) as (keyof Timing)[];
  const needed = names.filter((name) => mended[name] !== timing[name] || asked[name] === undefined);
  return Object.fromEntries(needed.map((name) => [name, mended[name]]));
}

function longEnough(timing: Timing): Timing {
  const renewEveryMs = Math.max(1, timing.renewEveryMs);
  const ttlMs = Math.ceil(2 * renewEveryMs + timing.roundTripMs + timing.marginMs);
  return { ...timing, renewEveryMs, ttlMs };
}

/** Bounds that fit the longest ttl with room to spare. */
function shortened(timing: Timing): Timing {
  const [renewEveryMs, clockErrorMs, roundTripMs] = [
    timing.renewEveryMs,
    timing.clockErrorMs,
    timing.roundTripMs,
  ].map((ms) => Math.min(ms, TTL_MAX_MS / 6)) as [number, number, number];
  return {
    ...timing,
    renewEveryMs,
    clockErrorMs,
    roundTripMs,
    marginMs: clockErrorMs + roundTripMs,
  };
}

function describe(numbers: Partial<Timing>): string {
  return Object.entries(numbers)
    .map(([name, ms]) => `${name} ${shown(ms)}`)
    .join(", ");
}
