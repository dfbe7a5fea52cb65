// Lengths of time as people write them: 500ms, 10s, 2m, 1h. A number without a unit is refused rather than guessed.

import { UsageError } from "./usage-error.ts";

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

/** The shortest way to write it exactly; what has fractions of a millisecond is rounded up. */
export function formatDuration(ms: number): string {
  for (const unit of ["h", "m", "s"] as const) {
    const count = ms / UNITS[unit];
    // Whole units, or tenths of a second.
    if (count >= 1 && Number.isInteger(unit === "s" ? count * 10 : count)) return `${count}${unit}`;
  }
  if (Number.isInteger(ms)) return `${ms}ms`;
  return ms > 1_000 ? `${Math.ceil(ms / 10) / 100}s` : `${Math.ceil(ms * 10) / 10}ms`;
}
