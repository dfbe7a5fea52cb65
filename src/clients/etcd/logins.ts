// The login of one connection to etcd. All requests share it, and at most one Authenticate request is under way: etcd
// takes 60 to 100 ms for each. Requests wait for that one instead of leaving with a token that is about to be replaced.

import type { Clock } from "../../async/clock.ts";
import { getSharedLimits } from "../../async/limits.ts";
import { isTenureError, StoreUnavailableError } from "../../core/errors.ts";

/** What a request proves its user with. Every login makes a new object. */
export interface Credential {
  /** Undefined before the first login, and where etcd has authentication switched off. */
  readonly token: string | undefined;
}

export interface LoginsParts {
  readonly clock: Clock;
  readonly place: string;
  /** Asks etcd for a token. */
  authenticate(limitMs: number): Promise<string | undefined>;
}

export class Logins {
  readonly #parts: LoginsParts;
  #current: Credential = { token: undefined };
  #underWay: Promise<void> | undefined;

  constructor(parts: LoginsParts) {
    this.#parts = parts;
  }

  get current(): Credential {
    return this.#current;
  }

  /**
   * Waits for a login under way, and starts one if etcd rejected the current credential. Undefined if there is nothing to
   * wait for, which saves the usual request a turn of the event loop.
   */
  ready(rejected: Credential | undefined, limitMs: number): Promise<void> | undefined {
    if (this.#underWay === undefined && rejected !== this.#current) return undefined;
    return this.#underWay === undefined ? this.#logIn(limitMs) : this.#join(limitMs);
  }

  /** The login under way has the limit of the request that started it, which may be shorter: then there is one more. */
  async #join(limitMs: number): Promise<void> {
    const { clock } = this.#parts;
    const endsAt = clock.now() + limitMs;
    try {
      await this.#logIn(limitMs);
    } catch (error) {
      const leftMs = endsAt - clock.now();
      if (!isTenureError(error, "STORE_UNAVAILABLE") || leftMs <= 0) throw error;
      await this.#logIn(leftMs);
    }
  }

  #logIn(limitMs: number): Promise<void> {
    this.#underWay ??= this.#renew(limitMs).finally(() => {
      this.#underWay = undefined;
    });
    return this.#within(limitMs, this.#underWay);
  }

  async #renew(limitMs: number): Promise<void> {
    this.#current = { token: await this.#parts.authenticate(limitMs) };
  }

  #within(limitMs: number, login: Promise<void>): Promise<void> {
    return new Promise((resolve, reject) => {
      const limit = getSharedLimits(this.#parts.clock).start(limitMs, () => {
        const message = `etcd at ${this.#parts.place} did not answer the login within ${Math.round(limitMs)} ms.`;
        reject(new StoreUnavailableError(message, { applied: "no" }));
      });
      login.finally(() => limit.end()).then(resolve, reject);
    });
  }
}
