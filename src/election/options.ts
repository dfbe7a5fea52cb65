// Checks the options of elections and resignations, and fills in their defaults.

import { badDelay, isDelay } from "../async/waits.ts";
import { InvalidArgumentError } from "../core/errors.ts";
import { checkOptionNames, type OptionNames } from "../core/options.ts";
import { checkHolderId } from "../core/record.ts";
import { LEASE_OPTIONS } from "../holder/options.ts";
import type { ElectionOptions, ObserveOptions, ResignOptions } from "./election.ts";

const DRAIN_MS = 10_000;

export const RANK_MAX = 20;

const ELECTION_OPTIONS: OptionNames<ElectionOptions> = {
  ...LEASE_OPTIONS,
  prepare: true,
  lead: true,
  rank: true,
  campaignAgain: true,
  onEvent: true,
};

const RESIGN_OPTIONS: OptionNames<ResignOptions> = {
  waitMs: true,
  drainMs: true,
  preferred: true,
};

export const OBSERVE_OPTIONS: OptionNames<ObserveOptions> = { signal: true };

/** The options of a resignation, checked and completed. */
export interface ResignPlan {
  readonly waitMs: number;
  readonly drainMs: number;
  readonly preferred: string | undefined;
}

export function planResignation(
  call: string,
  options: ResignOptions,
  defaultWaitMs: number,
): ResignPlan {
  checkOptionNames(call, options, RESIGN_OPTIONS);
  const { waitMs = defaultWaitMs, drainMs = DRAIN_MS } = options;
  if (!isDelay(waitMs)) throw badDelay("waitMs", waitMs);
  if (!isDelay(drainMs)) throw badDelay("drainMs", drainMs);
  const preferred = options.preferred === undefined ? undefined : checkHolderId(options.preferred);
  return { waitMs, drainMs, preferred };
}

export function checkElection(options: ElectionOptions): void {
  checkOptionNames("election()", options, ELECTION_OPTIONS);
  const { lead, prepare, onEvent, rank = 0 }: Partial<ElectionOptions> = options ?? {};
  if (typeof lead !== "function") {
    throw new InvalidArgumentError(
      "election(name, { lead }) needs `lead`: the function that runs while this process leads.",
    );
  }
  for (const [name, callback] of Object.entries({ prepare, onEvent })) {
    if (callback === undefined || typeof callback === "function") continue;
    throw new InvalidArgumentError(`\`${name}\` of an election must be a function.`);
  }
  if (Number.isInteger(rank) && rank >= 0 && rank <= RANK_MAX) return;
  throw new InvalidArgumentError(
    `\`rank\` must be a whole number from 0, which leads first, to ${RANK_MAX}, got ${String(rank)}.`,
  );
}
