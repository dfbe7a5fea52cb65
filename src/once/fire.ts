// Which run is meant, and for how long its claim is held. Either a fire of a schedule, named by its instant, or whatever
// comes first in a window.

import { InvalidArgumentError } from "../core/errors.ts";
import { checkResource } from "../core/resource.ts";
import { TTL_MAX_MS } from "../core/timing.ts";

export interface Fire {
  /**
   * The instant that the schedule names, in milliseconds since 1970; the same on every machine, whatever its clock says when
   * it comes. Of one key, only a fire later than every one remembered is run. @default none: the first in `windowMs` runs
   */
  readonly atMs?: number | undefined;
  /**
   * With `atMs`: how long the claim of a fire is held, from the claim on, by the store's clock. Half of it is for coming
   * late (by its own clock a machine does not run a fire later than that), half for the difference between the machines'
   * clocks. Too small: machines whose clocks differ by more than half of it run the same fire twice. Too large: nothing is
   * lost but memory of the store; a later fire is never kept waiting. @default 30000
   *
   * Without `atMs`: one run in so long; give the interval of the schedule. The claim is held for nine tenths of it, so that
   * the next fire finds it over. Too small: a late machine runs again. Too large: the next fire is skipped.
   */
  readonly windowMs?: number | undefined;
}

/** A fire that was checked. */
export interface Due {
  readonly key: string;
  readonly atMs: number | undefined;
  /** As asked for. */
  readonly windowMs: number;
  /** How long the claim is held. */
  readonly heldMs: number;
}

/** In March 1973. A smaller number is most likely a time in seconds, or a delay. */
const EARLIEST_MS = 1e11;
const DEFAULT_WINDOW_MS = 30_000;
export const WINDOW_MIN_MS = 1_000;
export const WINDOW_MAX_MS: number = TTL_MAX_MS;
/** Less than the window: the next fire comes one window after the last, give or take, and must find it over. */
const HELD_SHARE = 0.9;

export function checkFire(key: unknown, fire: Fire): Due {
  const resource = checkResource(key);
  for (const mark of marksOf(resource)) checkResource(mark);
  const { atMs, windowMs = DEFAULT_WINDOW_MS }: Fire = fire ?? {};
  if (atMs === undefined && fire?.windowMs === undefined) {
    throw new InvalidArgumentError(
      "once(key, fire, work) needs `atMs`, the instant that the schedule names, or `windowMs`: one run in so long.",
    );
  }
  if (atMs !== undefined && !Number.isFinite(atMs)) {
    throw new InvalidArgumentError(
      `\`atMs\` must be a number of milliseconds since 1970, got ${String(atMs)}. Of a Date that is getTime().`,
    );
  }
  if (atMs !== undefined && atMs < EARLIEST_MS) {
    throw new InvalidArgumentError(
      `\`atMs\` must be a number of milliseconds since 1970, got ${atMs}, which is a time before 1974. ` +
        "Multiply a time in seconds by 1000; of a Date take getTime().",
    );
  }
  if (!(windowMs >= WINDOW_MIN_MS && windowMs <= WINDOW_MAX_MS)) {
    throw new InvalidArgumentError(
      `\`windowMs\` must be from ${WINDOW_MIN_MS} to ${WINDOW_MAX_MS} (24 h), got ${String(windowMs)}.`,
    );
  }
  const heldMs = Math.ceil(atMs === undefined ? windowMs * HELD_SHARE : windowMs);
  return { key: resource, atMs, windowMs, heldMs };
}

/** How long after its instant a fire may still begin. */
export function latestMs(fire: Fire): number {
  return (fire.windowMs ?? DEFAULT_WINDOW_MS) / 2;
}

/** Later than half of the window, the claim of another machine could be over already. */
export function isLate(due: Due, wallNow: number): boolean {
  return due.atMs !== undefined && wallNow > due.atMs + latestMs(due);
}

/**
 * The resources that remember fires. Two, because a mark cannot be replaced in one step: while one is, the other stands, and
 * it is the later of the two.
 */
export function marksOf(key: string): readonly [string, string] {
  return [`${key}@once`, `${key}@once+`];
}
