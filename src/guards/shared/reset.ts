// What a reset of the guards on etcd and ZooKeeper is told.

import { checkOptionNames, type OptionNames } from "../../core/options.ts";
import { checkToken } from "../../core/token.ts";

export interface ResetOptions {
  /** The highest token, as highest() returned it. If the guard has seen another one since, nothing is reset. */
  readonly highest: bigint;
}

const RESET_OPTIONS: OptionNames<ResetOptions> = { highest: true };

export function checkResetToken(options: ResetOptions): bigint {
  checkOptionNames("resetHighest()", options, RESET_OPTIONS);
  return checkToken(options?.highest);
}
