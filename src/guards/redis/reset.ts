// Deletes the highest token of one resource, for a move to a store whose tokens are lower. One
// script call compares the token with the one that the caller has read, and deletes it.

import { checkOptionNames, type OptionNames } from "../../core/options.ts";
import { checkResource } from "../../core/resource.ts";
import { checkToken, padToken } from "../../core/token.ts";
import { type RedisGuardClient, toScripting } from "./client.ts";
import { DEFAULT_PREFIX, keysUnder } from "./names.ts";
import { scripts } from "./script.ts";

/** Options of resetHighest(). */
export interface ResetOptions {
  /** The highest token, as highest() returned it. If it has changed since, nothing is reset. */
  readonly highest: bigint;
  /** As given to redisGuard(). @default "tenure:guard" */
  readonly prefix?: string | undefined;
}

const RESET_OPTIONS: OptionNames<ResetOptions> = { highest: true, prefix: true };

/**
 * Deletes the highest token of a resource, so that the guard admits the next token, whatever its
 * value. It then also admits late writes of every former holder. Call it only when no process is
 * left that holds, or held, a lease of the old store. Resolves with false if the highest is another
 * token, and with true if none is left.
 */
export async function resetHighest(
  client: RedisGuardClient,
  resource: string,
  options: ResetOptions,
): Promise<boolean> {
  checkOptionNames("resetHighest()", options, RESET_OPTIONS);
  const word = padToken(checkToken(options?.highest));
  const key = keysUnder(options.prefix ?? DEFAULT_PREFIX)(checkResource(resource));
  const call = { script: scripts.reset, keys: [key], words: () => [word] };
  return Number(await toScripting(client).run(call)) === 0;
}
