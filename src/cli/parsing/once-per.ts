// Parses --once-per. `tenure run` uses the same windows and markers as oncePer()
// (src/once/markers.ts).

import {
  type Occurrence,
  toPeriodic,
  WINDOW_MAX_MS,
  WINDOW_MIN_MS,
} from "../../once/occurrence.ts";
import { UsageError } from "../errors.ts";
import { formatDuration } from "./duration.ts";

export function parseWindow(resource: string, windowMs: number): Occurrence {
  if (windowMs >= WINDOW_MIN_MS && windowMs <= WINDOW_MAX_MS)
    return toPeriodic(resource, { everyMs: windowMs });
  throw new UsageError(
    `--once-per must be from ${formatDuration(WINDOW_MIN_MS)} to ${formatDuration(WINDOW_MAX_MS)}, got ${formatDuration(windowMs)}.`,
  );
}
