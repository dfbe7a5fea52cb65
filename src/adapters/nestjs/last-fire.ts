// Which fire a run is for. The library below @nestjs/schedule only tells when the next one is, so the last is found from
// further back.

/** What is asked of a CronTime of the `cron` package. */
export interface CronTimes {
  getNextDateFrom(start: Date): { toMillis(): number };
}

/** A timer may go off a moment before the instant that it was set for. */
const EARLY_MS = 50;

/** The last instant that the schedule names, up to now; undefined when there is none within `reachMs`. */
export function lastFire(times: CronTimes, now: number, reachMs: number): number | undefined {
  const next = (after: number): number => times.getNextDateFrom(new Date(after)).toMillis();
  let last: number | undefined;
  for (let at = next(now - reachMs - 1); at <= now + EARLY_MS; at = next(at)) last = at;
  return last;
}
