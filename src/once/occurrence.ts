// Which run is meant, and how long the store remembers that it has begun. An occurrence is either
// one scheduled time of a key (once) or the current period of a key (oncePer).

import { InvalidArgumentError } from "../core/errors.ts";
import { checkResource } from "../core/resource.ts";
import { TTL_MAX_MS } from "../core/timing.ts";
import { RESERVED_SUFFIXES } from "../holder/reserved-names.ts";

/** A scheduled time. */
export interface ScheduledTime {
  /**
   * The scheduled time, in milliseconds since 1970. It must be the same on every machine, whatever
   * its clock says when it calls. Of one key, only times after every remembered one run.
   */
  readonly atMs: number;
  /**
   * How long the store remembers that this time has been handled, counted by the store's clock from
   * the start of the run. One half covers machines that call late: by its own clock, a machine does
   * not start a run later than that. The other half covers the difference between the machines'
   * clocks. Too small: machines whose clocks differ by more than half of it run the same time
   * twice. Too large: costs only space in the store; a later time never waits for it. @default
   * 30000
   */
  readonly windowMs?: number | undefined;
}

/** A period. */
export interface Period {
  /**
   * The period: at most one run in this time. Use the interval of the schedule. The run is
   * remembered for nine tenths of it, so that the next regular call finds it expired. Too small: a
   * late machine runs again. Too large: the next regular run is skipped.
   */
  readonly everyMs: number;
}

/** An occurrence, checked. */
export interface Occurrence {
  readonly key: string;
  /** The scheduled time; undefined for a period. */
  readonly atMs: number | undefined;
  /** `windowMs` or `everyMs`, as given. */
  readonly windowMs: number;
  /** How long the marker of the run lasts. */
  readonly markerMs: number;
}

/** In March 1973. A smaller number is most likely a time in seconds, or a delay. */
const EARLIEST_MS = 1e11;
const DEFAULT_WINDOW_MS = 30_000;
export const WINDOW_MIN_MS = 1_000;
export const WINDOW_MAX_MS: number = TTL_MAX_MS;
/** Below 1: the next regular run comes about one period later and must find the marker expired. */
const MARKER_SHARE = 0.9;

export function toScheduled(key: unknown, time: ScheduledTime): Occurrence {
  const resource = checkKey(key);
  const { atMs, windowMs = DEFAULT_WINDOW_MS }: Partial<ScheduledTime> = time ?? {};
  if (atMs === undefined) {
    throw new InvalidArgumentError(
      "once(key, { atMs }, work) needs `atMs`, the scheduled time in milliseconds since 1970. " +
        "For at most one run per period, use oncePer(key, { everyMs }, work).",
    );
  }
  if (!Number.isFinite(atMs)) {
    throw new InvalidArgumentError(
      `\`atMs\` must be a number of milliseconds since 1970, got ${String(atMs)}. Of a Date that is getTime().`,
    );
  }
  if (atMs < EARLIEST_MS) {
    throw new InvalidArgumentError(
      `\`atMs\` must be a number of milliseconds since 1970, got ${atMs}, which is a time before 1974. ` +
        "Multiply a time in seconds by 1000; of a Date take getTime().",
    );
  }
  checkLength("windowMs", windowMs);
  return { key: resource, atMs, windowMs, markerMs: Math.ceil(windowMs) };
}

export function toPeriodic(key: unknown, period: Period): Occurrence {
  const resource = checkKey(key);
  const { everyMs }: Partial<Period> = period ?? {};
  if (everyMs === undefined) {
    throw new InvalidArgumentError(
      "oncePer(key, { everyMs }, work) needs `everyMs`: at most one run in that time. " +
        "For one run per scheduled time, use once(key, { atMs }, work).",
    );
  }
  checkLength("everyMs", everyMs);
  const markerMs = Math.ceil(everyMs * MARKER_SHARE);
  return { key: resource, atMs: undefined, windowMs: everyMs, markerMs };
}

/** How long after its scheduled time a run may still begin. */
export function toLatestMs({ windowMs = DEFAULT_WINDOW_MS }: Partial<ScheduledTime>): number {
  return windowMs / 2;
}

/** Later than half of the window, the marker of another machine could already have expired. */
export function isLate({ atMs, windowMs }: Occurrence, wallNow: number): boolean {
  return atMs !== undefined && wallNow > atMs + toLatestMs({ windowMs });
}

/**
 * The two resources that hold the markers of a key. A marker cannot be replaced in one step, so a
 * new marker replaces the older of the two while the newer one remains.
 */
export function toMarkerResources(key: string): readonly [string, string] {
  return [key + RESERVED_SUFFIXES.firstMarker, key + RESERVED_SUFFIXES.secondMarker];
}

function checkKey(key: unknown): string {
  const resource = checkResource(key);
  for (const marker of toMarkerResources(resource)) checkResource(marker);
  return resource;
}

function checkLength(name: string, ms: number): void {
  if (ms >= WINDOW_MIN_MS && ms <= WINDOW_MAX_MS) return;
  throw new InvalidArgumentError(
    `\`${name}\` must be from ${WINDOW_MIN_MS} to ${WINDOW_MAX_MS} (24 h), got ${String(ms)}.`,
  );
}
