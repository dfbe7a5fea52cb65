// For node-cron (4.4 and up): its RunCoordinator, asked by tasks with `distributed: true`. node-cron names a fire by the
// task's name and the scheduled instant, asks shouldRun() and calls onComplete() when the run has ended; in between the
// lease is held. An older node-cron would ignore the coordinator and run every task on every machine, so it is rejected.

import { checkLibrary } from "../../clients/shared/libraries.ts";
import { InvalidArgumentError } from "../../core/errors.ts";
import type { OptionNames } from "../../core/options.ts";
import type { Lease } from "../../holder/lease.ts";
import { warn } from "../../runtime/system.ts";
import type { Tenure } from "../../tenure.ts";
import { checkFireOptions, FIRE_OPTIONS, type FireOptions, reportSkip } from "../skipped.ts";

export interface NodeCronOptions extends FireOptions {
  /**
   * How long a fire is remembered, as in once(). @default the task's `distributedLease`, which node-cron makes 30000 where
   * it is not given
   */
  readonly windowMs?: number | undefined;
  /** Put before the names of tasks: what else uses the same store has other names. @default "" */
  readonly prefix?: string | undefined;
}

const NODE_CRON_OPTIONS: OptionNames<NodeCronOptions> = { ...FIRE_OPTIONS, prefix: true };

/** A RunCoordinator of node-cron. */
export interface NodeCronCoordinator {
  shouldRun(key: string, ttlMs: number): Promise<boolean>;
  onComplete(key: string): Promise<void>;
  /** The lease under which the task of this name runs here, for guards; undefined while it does not. */
  lease(name: string): Lease | undefined;
}

interface Run {
  readonly name: string;
  readonly lease: Lease;
  readonly end: () => void;
  /** The lease is given back. */
  readonly over: Promise<unknown>;
}

/** Give it to setRunCoordinator(), or to a task as `runCoordinator`. Tasks need a `name`, the same on every machine. */
export function nodeCronCoordinator(
  tenure: Tenure,
  options: NodeCronOptions = {},
): NodeCronCoordinator {
  checkFireOptions("nodeCronCoordinator()", options, NODE_CRON_OPTIONS);
  const { windowMs, prefix = "", onSkip, ...lease } = options;
  checkNodeCron();
  const runs = new Map<string, Run>();

  const shouldRun = (key: string, ttlMs: number): Promise<boolean> =>
    new Promise((resolve, reject) => {
      const { name, atMs } = fireOf(key);
      const fire = { ...lease, atMs, windowMs: windowMs ?? ttlMs };
      const over = tenure.once(`${prefix}${name}`, fire, (held) => {
        return new Promise<void>((end) => {
          runs.set(key, { name, lease: held, end, over });
          resolve(true);
        });
      });
      over.then((result) => {
        if (result.ran) return;
        void reportSkip(onSkip, { ...result, key: name });
        resolve(false);
      }, reject);
    });

  const onComplete = async (key: string): Promise<void> => {
    const run = runs.get(key);
    runs.delete(key);
    run?.end();
    await run?.over;
  };

  const leaseOf = (name: string): Lease | undefined =>
    [...runs.values()].findLast((run) => run.name === name)?.lease;

  return { shouldRun: async (key, ttlMs) => shouldRun(key, ttlMs), onComplete, lease: leaseOf };
}

function checkNodeCron(): void {
  const { isFound, fault } = checkLibrary("node-cron");
  if (fault !== undefined)
    throw new InvalidArgumentError(
      `${fault} This one ignores the coordinator: every machine would run every task.`,
    );
  if (!isFound)
    warn(
      "Tenure cannot find out which version of node-cron runs here, perhaps because it is bundled. A version before 4.4 " +
        "ignores the coordinator and runs every task on every machine. Make sure that yours is 4.4 or newer.",
    );
}

/** node-cron's key is the task's name, a colon, and the instant as in toISOString(). */
function fireOf(key: string): { readonly name: string; readonly atMs: number } {
  const match = /^(.+):(\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)$/.exec(key);
  if (match !== null) return { name: match[1] as string, atMs: Date.parse(match[2] as string) };
  throw new InvalidArgumentError(
    `Expected node-cron's key of a fire, "name:instant", got ${JSON.stringify(key)}. Give the task a \`name\`, the same on every machine.`,
  );
}
