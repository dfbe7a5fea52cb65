// Detects a store that lost writes: one that was wiped, restored from a backup, or failed over to a
// stale replica. Remembers the highest token of the last ten thousand resources that this process
// acquired, and rejects a grant that was requested later and whose token is not above it.

import { TokenRegressionError } from "../core/errors.ts";
import { isToken } from "../core/token.ts";

const RESOURCES_MAX = 10_000;

export class TokenMemory {
  readonly #highest = new Map<string, bigint>();

  /** The highest token of the resource so far. 0 if none is known. */
  highest(resource: string): bigint {
    return this.#highest.get(resource) ?? 0n;
  }

  /**
   * Throws TokenRegressionError unless the token is above `before`, the highest when the grant was
   * requested (S1). False: this process has accepted a later grant in the meantime. The report of
   * this one came late, and its lease has ended.
   */
  accept(resource: string, token: bigint, before: bigint = this.highest(resource)): boolean {
    const highest = this.highest(resource);
    if (!isToken(token) || token <= before || token === highest) {
      throw TokenRegressionError.from({ resource, offered: token, highest });
    }
    if (token < highest) return false;
    // Deleted first to keep the map ordered by last use.
    this.#highest.delete(resource);
    this.#highest.set(resource, token);
    if (this.#highest.size > RESOURCES_MAX) {
      const oldest = this.#highest.keys().next();
      if (!oldest.done) this.#highest.delete(oldest.value);
    }
    return true;
  }
}
