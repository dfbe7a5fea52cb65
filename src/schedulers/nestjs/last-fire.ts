// Finds the scheduled time that a run belongs to. The cron library below @nestjs/schedule only
// computes the next time after an instant. So this file searches backwards from now in steps that
// double, and then by bisection.

/** A CronTime of the `cron` package, as far as this adapter needs it. */
export interface CronTimes {
  getNextDateFrom(start: Date): { toMillis(): number };
}

/** A timer may fire slightly before the time that it was set for. */
const EARLY_MS = 50;
/** The shortest interval of a schedule. */
const STEP_MS = 1_000;

/** The last scheduled time up to now; undefined if it is more than `reachMs` ago. */
export function findLastFire(times: CronTimes, now: number, reachMs: number): number | undefined {
  const next = (after: number): number => times.getNextDateFrom(new Date(after)).toMillis();
  const latest = now + EARLY_MS;
  const earliest = now - reachMs - 1;
  let from = latest;
  let found: number | undefined;
  for (let stepMs = STEP_MS; found === undefined; stepMs *= 2) {
    const start = Math.max(earliest, latest - stepMs);
    const fire = next(start);
    if (fire <= latest) found = fire;
    else if (start === earliest) return undefined;
    else from = start;
  }
  return findNewest(next, { found, from, latest });
}

/** `found` is a scheduled time up to `from`. None lies after `from` and up to `latest`. */
function findNewest(
  next: (after: number) => number,
  range: { readonly found: number; readonly from: number; readonly latest: number },
): number {
  let { found, from } = range;
  for (;;) {
    const following = next(found);
    if (following > range.latest) return found;
    found = following;
    const middle = Math.floor((found + from) / 2);
    const fire = middle > found ? next(middle) : found;
    if (fire > range.latest) from = middle;
    else found = fire;
  }
}
