// Notices a store that went back in time: restored from a copy, failed over to a replica that missed writes, wiped.
// Remembers the newest token of the resources this process acquired, the last ten thousand of them.

import { TokenRegressionError } from "../core/errors.ts";
import { isToken } from "../core/token.ts";

const RESOURCES_MAX = 10_000;

export class TokenMemory {
  readonly #highest = new Map<string, bigint>();

  /** Throws TokenRegressionError unless this grant's token is above every one seen before (S1). */
  accept(resource: string, token: bigint): void {
    const highest = this.#highest.get(resource) ?? 0n;
    if (!isToken(token) || token <= highest) {
      throw TokenRegressionError.from({ resource, offered: token, highest });
    }
    // Deleted first, so that the map stays ordered by last use.
    this.#highest.delete(resource);
    this.#highest.set(resource, token);
    if (this.#highest.size > RESOURCES_MAX) {
      const oldest = this.#highest.keys().next();
      if (!oldest.done) this.#highest.delete(oldest.value);
    }
  }
}
