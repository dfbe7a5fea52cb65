// --once-per: the window of `tenure run` is that of oncePer(), whose marks remember it (once/markers.ts).

import { type Occurrence, toPeriodic, WINDOW_MAX_MS, WINDOW_MIN_MS } from "../once/occurrence.ts";
import { formatDuration } from "./duration.ts";
import { UsageError } from "./usage-error.ts";

export function windowOf(resource: string, windowMs: number): Occurrence {
  if (windowMs >= WINDOW_MIN_MS && windowMs <= WINDOW_MAX_MS)
    return toPeriodic(resource, { everyMs: windowMs });
  throw new UsageError(
    `--once-per is from ${formatDuration(WINDOW_MIN_MS)} to ${formatDuration(WINDOW_MAX_MS)}, got ${formatDuration(windowMs)}.`,
  );
}
