// For croner 9 and later: wraps the function of a job, so that each scheduled time of the job runs
// once across all machines.

import { findFault } from "../../clients/shared/libraries.ts";
import { InvalidArgumentError } from "../../core/errors.ts";
import type { Lease } from "../../holder/lease.ts";
import type { Tenure } from "../../tenure.ts";
import { checkFireOptions, FIRE_OPTIONS, type FireOptions, reportSkip } from "../run-options.ts";
import { type CronerJob, findLastFire } from "./last-fire.ts";

export type { FireOptions, SkippedFire } from "../run-options.ts";
export type { CronerJob } from "./last-fire.ts";

/** The work of a job. `fire` is the scheduled time, which is the same on every machine. */
export type CronerWork<Job extends CronerJob> = (lease: Lease, job: Job, fire: Date) => unknown;

/**
 * The function for a job of croner: `new Cron("0 3 * * *", oncePerFire(tenure, "nightly", work))`,
 * with the same key on every machine. An error of `work` goes to croner (its `catch` option). So
 * does a store that cannot be used; then the work has not run.
 */
export function oncePerFire<Job extends CronerJob>(
  tenure: Tenure,
  key: string,
  work: CronerWork<Job>,
): (job: Job) => Promise<void>;
/** The same with options, such as `windowMs` and `onSkip`. */
export function oncePerFire<Job extends CronerJob>(
  tenure: Tenure,
  key: string,
  options: FireOptions,
  work: CronerWork<Job>,
): (job: Job) => Promise<void>;
export function oncePerFire<Job extends CronerJob>(
  tenure: Tenure,
  key: string,
  third: FireOptions | CronerWork<Job>,
  fourth?: CronerWork<Job>,
): (job: Job) => Promise<void> {
  const [options, work] = typeof third === "function" ? [{}, third] : [third, fourth];
  checkFireOptions("oncePerFire()", options, FIRE_OPTIONS);
  if (typeof work !== "function")
    throw new InvalidArgumentError(
      "oncePerFire(tenure, key, options?, work) needs a function as its last argument.",
    );
  const fault = findFault("croner");
  if (fault !== undefined) throw new InvalidArgumentError(fault);
  const { onSkip, ...once } = options;
  return async (job) => {
    const fire = findFire(job);
    const result = await tenure.once(key, { ...once, atMs: fire.getTime() }, (lease) =>
      work(lease, job, fire),
    );
    if (!result.ran) void reportSkip(onSkip, { ...result, key });
  };
}

function findFire(job: CronerJob): Date {
  const began = job.currentRun();
  const fire = began === null ? undefined : findLastFire(job, began);
  if (fire !== undefined) return fire;
  throw new InvalidArgumentError(
    "This run of a croner job belongs to no scheduled time of its pattern, so the work did not run. " +
      "To run it by hand, call the work itself, or use oncePer().",
  );
}
