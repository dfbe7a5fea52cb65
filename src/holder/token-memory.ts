// Detects a store that lost writes: one that was wiped, restored from a backup, or failed over to a
// stale replica. Remembers the highest token of the last ten thousand resources that this process
// acquired, and rejects a grant whose token is not above it.

import { TokenRegressionError } from "../core/errors.ts";
import { isToken } from "../core/token.ts";

const RESOURCES_MAX = 10_000;

export class TokenMemory {
  readonly #highest = new Map<string, bigint>();

  /**
   * Throws TokenRegressionError unless the token is above all earlier ones of the resource (S1).
   */
  accept(resource: string, token: bigint): void {
    const highest = this.#highest.get(resource) ?? 0n;
    if (!isToken(token) || token <= highest) {
      throw TokenRegressionError.from({ resource, offered: token, highest });
    }
    // Deleted first to keep the map ordered by last use.
    this.#highest.delete(resource);
    this.#highest.set(resource, token);
    if (this.#highest.size > RESOURCES_MAX) {
      const oldest = this.#highest.keys().next();
      if (!oldest.done) this.#highest.delete(oldest.value);
    }
  }
}
