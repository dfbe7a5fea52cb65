// The durations of the command line as the numbers of a lease. `run` and `elect` need one more than the five: the command
// gets SIGTERM so long before the deadline, and a single lost renewal must not bring it that far. So the interval between
// renewals is chosen for `2 * renewEvery + roundTrip + killAfter <= ttl - margin`.

import { planTiming, type Timing, TimingError, type TimingOptions } from "../core/timing.ts";
import type { Options } from "./arguments.ts";
import { CommandError } from "./command-error.ts";
import { formatDuration } from "./duration.ts";
import { EXIT } from "./exit-codes.ts";

const FLAGS: Readonly<Record<keyof Timing, string>> = {
  ttlMs: "--ttl",
  renewEveryMs: "--renew-every",
  clockErrorMs: "--clock-error",
  roundTripMs: "--round-trip",
  marginMs: "--margin",
};

const KILL_AFTER_SHARE = 5;
const KILL_AFTER_MAX_MS = 10_000;
/** Renewing more often than this to make room for a long --kill-after would be a load on the store. */
const RENEW_EVERY_MIN_MS = 50;

/** Only what was given. */
export function timingOptions(options: Options): TimingOptions {
  return {
    ttlMs: options.duration("ttl"),
    renewEveryMs: options.duration("renew-every"),
    clockErrorMs: options.duration("clock-error"),
    roundTripMs: options.duration("round-trip"),
    marginMs: options.duration("margin"),
  };
}

/** Like planTiming(), and speaks of the options of the command line when it refuses. */
export function planFrom(asked: TimingOptions): Timing {
  try {
    return planTiming(asked);
  } catch (error) {
    if (error instanceof TimingError) throw refusal(error);
    throw error;
  }
}

export interface RunTiming {
  readonly timing: Timing;
  readonly killAfterMs: number;
}

export function runTiming(options: Options): RunTiming {
  const asked = timingOptions(options);
  const plain = planFrom(asked);
  const killAfterMs =
    options.duration("kill-after") ?? Math.min(plain.ttlMs / KILL_AFTER_SHARE, KILL_AFTER_MAX_MS);
  const room = (plain.ttlMs - plain.marginMs - plain.roundTripMs - killAfterMs) / 2;
  const renewEveryMs = asked.renewEveryMs ?? Math.min(plain.renewEveryMs, room);
  if (renewEveryMs > room || renewEveryMs < RENEW_EVERY_MIN_MS)
    throw tooLittleRoom(plain, killAfterMs, asked.renewEveryMs);
  return { timing: planFrom({ ...asked, renewEveryMs }), killAfterMs };
}

function tooLittleRoom(
  timing: Timing,
  killAfterMs: number,
  renewEveryMs: number | undefined,
): CommandError {
  const { ttlMs, marginMs, roundTripMs } = timing;
  const interval = renewEveryMs ?? RENEW_EVERY_MIN_MS;
  const neededMs = Math.ceil(2 * interval + roundTripMs + killAfterMs + marginMs);
  const spareMs = Math.floor(ttlMs - marginMs - roundTripMs - 2 * interval);
  const shorter = spareMs > 0 ? `--kill-after ${formatDuration(spareMs)} or ` : "";
  return new CommandError(
    `--kill-after ${formatDuration(killAfterMs)} does not fit into a ttl of ${formatDuration(ttlMs)}: after one lost ` +
      "renewal there must be that much left (2 * renew-every + round-trip + kill-after <= ttl - margin). " +
      `Nearest: ${shorter}--ttl ${formatDuration(neededMs)}.`,
    EXIT.timing,
    { code: "TIMING", inequality: "kill-after", shortByMs: neededMs - ttlMs },
  );
}

function refusal(error: TimingError): CommandError {
  const mend = Object.entries(error.mend) as [keyof Timing, number][];
  const flags = mend.map(([name, ms]) => `${FLAGS[name]} ${formatDuration(ms)}`).join(" ");
  const reasons = {
    safety:
      "they break the safety inequality margin >= clock-error + round-trip: two could hold at once",
    availability:
      "they break the availability inequality 2 * renew-every + round-trip <= ttl - margin: one lost renewal would lose the lease",
    bounds:
      "a ttl below 3s needs --clock-error and --round-trip, from what you measured (tenure doctor)",
  } as const;
  const short = error.inequality === "bounds" ? "" : `, by ${formatDuration(error.shortByMs)}`;
  return new CommandError(
    `These durations cannot work: ${reasons[error.inequality]}${short}. Nearest: ${flags}.`,
    EXIT.timing,
    { code: "TIMING", inequality: error.inequality, shortByMs: error.shortByMs, mend: error.mend },
  );
}
