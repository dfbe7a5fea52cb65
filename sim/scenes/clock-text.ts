// Formats instants and durations for people.

/** Returns seconds since midnight. */
export function timeOfDay(hour: number, minute: number, second: number): number {
  return (hour * 60 + minute) * 60 + second;
}

/**
 * `startsAt` is the time of day at instant 0, in seconds since midnight. Without it, the text
 * counts seconds from the start.
 */
export function clockText(ms: number, startsAt: number | undefined, digits: number): string {
  if (startsAt === undefined) return `${(ms / 1_000).toFixed(digits)} s`;
  const unit = 10 ** digits;
  const units = Math.round((startsAt + ms / 1_000) * unit);
  const seconds = Math.floor(units / unit);
  const two = (part: number): string => String(part).padStart(2, "0");
  const whole = `${two(Math.floor(seconds / 3_600))}:${two(Math.floor(seconds / 60) % 60)}:${two(seconds % 60)}`;
  return digits === 0 ? whole : `${whole}.${String(units % unit).padStart(digits, "0")}`;
}

export function durationText(ms: number): string {
  const size = Math.abs(ms);
  const sign = ms < 0 ? "\u2212" : "";
  if (size < 0.5) return "0";
  if (size < 950) return `${sign}${Math.round(size)} ms`;
  return `${sign}${(size / 1_000).toFixed(1).replace(/\.0$/, "")} s`;
}
