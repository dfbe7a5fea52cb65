// Parses --once-per. `tenure run` uses the same windows and markers as once() (src/once/marks.ts).

import { checkFire, type Due, WINDOW_MAX_MS, WINDOW_MIN_MS } from "../../once/fire.ts";
import { UsageError } from "../errors.ts";
import { formatDuration } from "./duration.ts";

export function parseWindow(resource: string, windowMs: number): Due {
  if (windowMs >= WINDOW_MIN_MS && windowMs <= WINDOW_MAX_MS)
    return checkFire(resource, { windowMs });
  throw new UsageError(
    `--once-per must be from ${formatDuration(WINDOW_MIN_MS)} to ${formatDuration(WINDOW_MAX_MS)}, got ${formatDuration(windowMs)}.`,
  );
}
