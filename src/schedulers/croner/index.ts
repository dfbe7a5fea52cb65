// For croner (9 and up): wraps the function of a job, so that each of its fires is run once across all machines.

import { findFault } from "../../clients/shared/libraries.ts";
import { InvalidArgumentError } from "../../core/errors.ts";
import type { Lease } from "../../holder/lease.ts";
import type { Tenure } from "../../tenure.ts";
import { checkFireOptions, FIRE_OPTIONS, type FireOptions, reportSkip } from "../skipped.ts";
import { type CronerJob, lastFire } from "./last-fire.ts";

export type { CronerJob } from "./last-fire.ts";

/**
 * `new Cron("0 3 * * *", oncePerFire(tenure, "nightly", async (lease) => { ... }))`, with the same key on every machine. `work`
 * gets the lease, the job, and the instant that the schedule names, which is the same wherever it runs. What `work` throws goes to croner (its `catch` option); so does a store that cannot be used, and then nothing was run.
 */
export function oncePerFire<Job extends CronerJob>(
  tenure: Tenure,
  key: string,
  work: (lease: Lease, job: Job, fire: Date) => unknown,
  options: FireOptions = {},
): (job: Job) => Promise<void> {
  checkFireOptions("oncePerFire()", options, FIRE_OPTIONS);
  if (typeof work !== "function")
    throw new InvalidArgumentError("oncePerFire(tenure, key, work, options?) needs a function.");
  const fault = findFault("croner");
  if (fault !== undefined) throw new InvalidArgumentError(fault);
  const { onSkip, ...once } = options;
  return async (job) => {
    const fire = fireOf(job);
    const result = await tenure.once(key, { ...once, atMs: fire.getTime() }, (lease) =>
      work(lease, job, fire),
    );
    if (!result.ran) void reportSkip(onSkip, { ...result, key });
  };
}

function fireOf(job: CronerJob): Date {
  const began = job.currentRun();
  const fire = began === null ? undefined : lastFire(job, began);
  if (fire !== undefined) return fire;
  throw new InvalidArgumentError(
    "This job of croner has no fire that is due. A run by hand is no fire: call the work itself, or once() with `windowMs`.",
  );
}
