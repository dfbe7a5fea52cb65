// The options of resetHighest() for the guards on etcd and ZooKeeper.

import { checkOptionNames, type OptionNames } from "../../core/options.ts";
import { checkToken } from "../../core/token.ts";

/** Options of resetHighest(). */
export interface ResetOptions {
  /** The highest token, as highest() returned it. If it has changed since, nothing is reset. */
  readonly highest: bigint;
}

const RESET_OPTIONS: OptionNames<ResetOptions> = { highest: true };

export function checkResetToken(options: ResetOptions): bigint {
  checkOptionNames("resetHighest()", options, RESET_OPTIONS);
  return checkToken(options?.highest);
}
