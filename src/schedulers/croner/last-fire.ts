// Which fire a run of croner is for. croner reports when the run began, which is a little after the instant that the pattern
// names and differs by machine. Since croner 10 a job lists its previous instants. Before, it only computes the next one, so
// the last is found by counting forward from further back.

/** What is asked of croner's Cron. */
export interface CronerJob {
  currentRun(): Date | null;
  nextRun(after?: Date | null): Date | null;
  /** Since croner 10. */
  previousRuns?(count: number, reference?: Date): Date[];
}

/** What croner 9 has besides. */
interface OlderJob extends CronerJob {
  readonly options: { readonly interval?: number };
  readonly constructor: new (pattern: string | undefined, options: object) => OlderJob;
  getPattern(): string | undefined;
  runsLeft(): number | undefined;
}

/** The smallest step of a croner pattern. */
const STEP_MS = 1_000;
/** Longer than any pattern pauses: the 29th of February is missing for eight years when 2100 is among them. */
const REACH_MS = 9 * 366 * 86_400_000;

/** The last instant that the pattern names, up to the beginning of a run. */
export function lastFire(job: CronerJob, began: Date): Date | undefined {
  if (job.previousRuns !== undefined)
    return job.previousRuns(1, new Date(began.getTime() + STEP_MS))[0];
  const pattern = patternOnly(job as OlderJob);
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

/** nextRun() returns null after the last of `maxRuns` and keeps the distance of `interval`, so ask a job without them. */
function patternOnly(job: OlderJob): CronerJob {
  if (!job.options.interval && job.runsLeft() === undefined) return job;
  const options = { ...job.options, name: undefined, interval: undefined, maxRuns: undefined };
  return new job.constructor(job.getPattern(), options);
}
