// Parses and formats durations such as 500ms, 10s, 2m and 1h. A number without a unit is rejected,
// because guessing the unit could be wrong by a factor of 1000.

import { UsageError } from "../errors.ts";

const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000 } as const;
type Unit = keyof typeof UNITS;

export function parseDuration(text: string, option: string): number {
  const parts = /^(\d+(?:\.\d+)?)(ms|s|m|h)$/.exec(text);
  if (parts === null) {
    throw new UsageError(
      `${option} needs a number with a unit (500ms, 10s, 2m, 1h), got ${JSON.stringify(text)}.`,
    );
  }
  return Number(parts[1]) * UNITS[parts[2] as Unit];
}

/** Formats an elapsed time for people, rounded down: "12s", "3m 12s", "2h 5m", "4d 3h". */
export function formatElapsed(ms: number): string {
  const [days, hours] = [Math.floor(ms / (24 * UNITS.h)), Math.floor(ms / UNITS.h) % 24];
  const [minutes, seconds] = [Math.floor(ms / UNITS.m) % 60, Math.floor(ms / UNITS.s) % 60];
  if (days > 0) return `${days}d ${hours}h`;
  if (hours > 0) return `${hours}h ${minutes}m`;
  return minutes > 0 ? `${minutes}m ${seconds}s` : `${seconds}s`;
}

/** Formats a duration exactly, in the shortest form. Fractions of a millisecond are rounded up. */
export function formatDuration(ms: number): string {
  for (const unit of ["h", "m", "s"] as const) {
    const count = ms / UNITS[unit];
    // Whole units, or tenths of a second.
    if (count >= 1 && Number.isInteger(unit === "s" ? count * 10 : count)) return `${count}${unit}`;
  }
  if (Number.isInteger(ms)) return `${ms}ms`;
  return ms > 1_000 ? `${Math.ceil(ms / 10) / 100}s` : `${Math.ceil(ms * 10) / 10}ms`;
}
