// Finds the scheduled time that a run of croner belongs to. croner reports when the run began,
// which is a little later and differs between machines. Since croner 10, a job lists its previous
// times. Older jobs only compute the next time, so this file counts forward from a time in the
// past.

/** A job of croner, as far as this adapter needs it. */
export interface CronerJob {
  /** When the run in progress began; null outside a run. */
  currentRun(): Date | null;
  /** The first scheduled time after `after`; null if the schedule has ended. */
  nextRun(after?: Date | null): Date | null;
  /** Since croner 10. */
  previousRuns?(count: number, reference?: Date): Date[];
}

/** What a job of croner 9 has in addition. */
interface OlderJob extends CronerJob {
  readonly options: { readonly interval?: number };
  readonly constructor: new (pattern: string | undefined, options: object) => OlderJob;
  getPattern(): string | undefined;
  runsLeft(): number | undefined;
}

/** The smallest step of a croner pattern. */
const STEP_MS = 1_000;
/** Longer than the gap of any pattern: around 2100, February 29 is missing for eight years. */
const REACH_MS = 9 * 366 * 86_400_000;

/** The last time that the pattern names, up to the beginning of a run. */
export function findLastFire(job: CronerJob, began: Date): Date | undefined {
  if (job.previousRuns !== undefined)
    return job.previousRuns(1, new Date(began.getTime() + STEP_MS))[0];
  const pattern = withoutLimits(job as OlderJob);
  for (let back = STEP_MS; back < REACH_MS; back *= 2) {
    let fire: Date | undefined;
    let next = pattern.nextRun(new Date(began.getTime() - back));
    while (next !== null && next <= began) {
      fire = next;
      next = pattern.nextRun(fire);
    }
    if (fire !== undefined) return fire;
  }
  return undefined;
}

/**
 * A job with the same pattern but without `maxRuns`, after which nextRun() returns null, and
 * without `interval`, whose distance nextRun() keeps.
 */
function withoutLimits(job: OlderJob): CronerJob {
  if (!job.options.interval && job.runsLeft() === undefined) return job;
  const options = { ...job.options, name: undefined, interval: undefined, maxRuns: undefined };
  return new job.constructor(job.getPattern(), options);
}
