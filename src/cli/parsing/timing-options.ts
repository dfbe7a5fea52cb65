// Turns the durations on the command line into the timing of a lease. `run` and `elect` have one
// duration more: the command receives SIGTERM `killAfter` before its deadline, and a single lost
// renewal must not cause that. The renewal interval is therefore chosen such that `2 * renewEvery +
// roundTrip + killAfter <= ttl - margin`.

import { planTiming, type Timing, TimingError, type TimingOptions } from "../../core/timing.ts";
import { CommandError } from "../errors.ts";
import { EXIT } from "../exit-codes.ts";
import type { Options } from "./arguments.ts";
import { formatDuration } from "./duration.ts";

const OPTIONS: Readonly<Record<keyof Timing, string>> = {
  ttlMs: "ttl",
  renewEveryMs: "renew-every",
  clockErrorMs: "clock-error",
  roundTripMs: "round-trip",
  marginMs: "margin",
};

const KILL_AFTER_SHARE = 5;
const KILL_AFTER_MAX_MS = 10_000;
/**
 * A long --kill-after shortens the renewal interval, but not below this: it would load the store.
 */
const RENEW_EVERY_MIN_MS = 50;

/** The durations that were given; the others are undefined. */
export function parseTimingOptions(options: Options): TimingOptions {
  return Object.fromEntries(
    Object.entries(OPTIONS).map(([name, option]) => [name, options.duration(option)]),
  );
}

/** Like planTiming(), but its errors name the options of the command line. */
export function planTimingOptions(asked: TimingOptions): Timing {
  try {
    return planTiming(asked);
  } catch (error) {
    if (error instanceof TimingError) throw toCommandError(error);
    throw error;
  }
}

export interface RunTiming {
  readonly timing: Timing;
  readonly killAfterMs: number;
}

export function planRunTiming(options: Options): RunTiming {
  const asked = parseTimingOptions(options);
  const plain = planTimingOptions(asked);
  const killAfterMs =
    options.duration("kill-after") ?? Math.min(plain.ttlMs / KILL_AFTER_SHARE, KILL_AFTER_MAX_MS);
  const room = (plain.ttlMs - plain.marginMs - plain.roundTripMs - killAfterMs) / 2;
  const renewEveryMs = asked.renewEveryMs ?? Math.min(plain.renewEveryMs, room);
  if (renewEveryMs > room || renewEveryMs < RENEW_EVERY_MIN_MS)
    throw toKillAfterError(plain, killAfterMs, asked.renewEveryMs);
  return { timing: planTimingOptions({ ...asked, renewEveryMs }), killAfterMs };
}

function toKillAfterError(
  { ttlMs, marginMs, roundTripMs }: Timing,
  killAfterMs: number,
  interval = RENEW_EVERY_MIN_MS,
): CommandError {
  const neededMs = Math.ceil(2 * interval + roundTripMs + killAfterMs + marginMs);
  const spareMs = Math.floor(ttlMs - marginMs - roundTripMs - 2 * interval);
  const shorter = spareMs > 0 ? `--kill-after ${formatDuration(spareMs)} or ` : "";
  return new CommandError(
    `--kill-after ${formatDuration(killAfterMs)} does not fit into a ttl of ${formatDuration(ttlMs)}: after one lost ` +
      "renewal that much time must remain (2 * renew-every + round-trip + kill-after <= ttl - margin). " +
      `Nearest: ${shorter}--ttl ${formatDuration(neededMs)}.`,
    EXIT.timing,
    { code: "TIMING", rule: "killAfter", shortByMs: neededMs - ttlMs },
  );
}

function toCommandError(error: TimingError): CommandError {
  const fix = Object.entries(error.fix) as [keyof Timing, number][];
  const flags = fix.map(([name, ms]) => `--${OPTIONS[name]} ${formatDuration(ms)}`).join(" ");
  const reasons = {
    safety:
      "they violate the safety inequality margin >= clock-error + round-trip: two processes could hold the lease at once",
    availability:
      "they violate the availability inequality 2 * renew-every + round-trip <= ttl - margin: one lost renewal would lose the lease",
    explicitBounds:
      "a ttl below 3s needs --clock-error and --round-trip with measured values (tenure doctor)",
  } as const;
  const short = error.rule === "explicitBounds" ? "" : `, by ${formatDuration(error.shortByMs)}`;
  return new CommandError(
    `These durations cannot work: ${reasons[error.rule]}${short}. Nearest: ${flags}.`,
    EXIT.timing,
    { code: "TIMING", rule: error.rule, shortByMs: error.shortByMs, fix: error.fix },
  );
}
