// Checks the options of elections and resignations, and fills in defaults.

import { badDelay, isDelay } from "../async/waits.ts";
import { InvalidArgumentError } from "../core/errors.ts";
import { checkOptionNames, type OptionNames } from "../core/options.ts";
import type { HandoverOptions } from "../holder/handover.ts";
import { LEASE_OPTIONS } from "../holder/option-names.ts";
import type { ElectionOptions, ObserveOptions, ResignOptions } from "./election.ts";
import { RANK_MAX } from "./hold-back.ts";
import { checkPreference, type Preference } from "./preference.ts";

const DRAIN_MS = 10_000;

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
  preferredMs: true,
};

export const OBSERVE_OPTIONS: OptionNames<ObserveOptions> = { signal: true };

export interface Limits extends HandoverOptions {
  readonly drainMs: number;
  readonly preference: Preference | undefined;
}

export function limitsOf(call: string, options: ResignOptions, defaultWaitMs: number): Limits {
  checkOptionNames(call, options, RESIGN_OPTIONS);
  const { waitMs = defaultWaitMs, drainMs = DRAIN_MS } = options;
  if (!isDelay(waitMs)) throw badDelay("waitMs", waitMs);
  if (!isDelay(drainMs)) throw badDelay("drainMs", drainMs);
  return { waitMs, drainMs, preference: checkPreference(options) };
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
    `\`rank\` must be a whole number from 0, which asks first, to ${RANK_MAX}, got ${String(rank)}.`,
  );
}
