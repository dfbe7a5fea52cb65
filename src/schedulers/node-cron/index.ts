// For node-cron 4.4 and later: a RunCoordinator, which node-cron consults for tasks with
// `distributed: true`. node-cron calls shouldRun() with the name of the task and the scheduled
// time, and onComplete() when the run has ended; the lease is held in between. Older versions
// ignore the coordinator and run every task on every machine, so they are rejected.

import { checkLibrary } from "../../clients/shared/libraries.ts";
import { InvalidArgumentError } from "../../core/errors.ts";
import type { OptionNames } from "../../core/options.ts";
import type { Lease } from "../../holder/lease.ts";
import { warn } from "../../runtime/system.ts";
import type { Tenure } from "../../tenure.ts";
import { checkFireOptions, FIRE_OPTIONS, type FireOptions, reportSkip } from "../run-options.ts";

export type { FireOptions, SkippedFire } from "../run-options.ts";

/** Options of nodeCronCoordinator(). */
export interface NodeCronOptions extends FireOptions {
  /**
   * How long a run is remembered, as in once(). @default the task's `distributedLease`, for which
   * node-cron uses 30000 if it is not given
   */
  readonly windowMs?: number | undefined;
  /** Prepended to the names of tasks, to keep them apart from other resources. @default "" */
  readonly prefix?: string | undefined;
}

const NODE_CRON_OPTIONS: OptionNames<NodeCronOptions> = { ...FIRE_OPTIONS, prefix: true };

/** A RunCoordinator of node-cron. */
export interface NodeCronCoordinator {
  /** Called by node-cron before a run. */
  shouldRun(key: string, ttlMs: number): Promise<boolean>;
  /** Called by node-cron after a run. */
  onComplete(key: string): Promise<void>;
  /** The lease under which the task of this name runs here, for guards; undefined otherwise. */
  lease(name: string): Lease | undefined;
}

interface Run {
  readonly name: string;
  readonly lease: Lease;
  readonly end: () => void;
  /** Settles when the lease has been released. */
  readonly released: Promise<unknown>;
}

/**
 * Pass the result to setRunCoordinator(), or to a task as `runCoordinator`. Tasks need a `name`,
 * the same on every machine.
 */
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
      const { name, atMs } = parseKey(key);
      const fire = { ...lease, atMs, windowMs: windowMs ?? ttlMs };
      const released = tenure.once(`${prefix}${name}`, fire, (held) => {
        return new Promise<void>((end) => {
          runs.set(key, { name, lease: held, end, released });
          resolve(true);
        });
      });
      released.then((result) => {
        if (result.ran) return;
        void reportSkip(onSkip, { ...result, key: name });
        resolve(false);
      }, reject);
    });

  const onComplete = async (key: string): Promise<void> => {
    const run = runs.get(key);
    runs.delete(key);
    run?.end();
    await run?.released;
  };

  const findLease = (name: string): Lease | undefined =>
    [...runs.values()].findLast((run) => run.name === name)?.lease;

  return { shouldRun: async (key, ttlMs) => shouldRun(key, ttlMs), onComplete, lease: findLease };
}

function checkNodeCron(): void {
  const { isFound, fault } = checkLibrary("node-cron");
  if (fault !== undefined)
    throw new InvalidArgumentError(
      `${fault} This one ignores the coordinator: every machine would run every task.`,
    );
  if (!isFound)
    warn(
      "Tenure cannot determine the version of node-cron, perhaps because it is bundled. A version " +
        "before 4.4 ignores the coordinator and runs every task on every machine. Make sure that " +
        "yours is 4.4 or later.",
    );
}

/** A key of node-cron: the name of the task, a colon, and the time as in toISOString(). */
function parseKey(key: string): { readonly name: string; readonly atMs: number } {
  const match = /^(.+):(\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)$/.exec(key);
  if (match !== null) return { name: match[1] as string, atMs: Date.parse(match[2] as string) };
  throw new InvalidArgumentError(
    `Expected a key of node-cron, "name:time", got ${JSON.stringify(key)}. ` +
      "Give the task a `name`, the same on every machine.",
  );
}
