// The login of one client. All requests share it, and at most one Authenticate request is in
// flight, because etcd takes 60 to 100 ms for each. Requests wait for it within their own limits.

import type { Clock } from "../../async/clock.ts";
import { getSharedLimits } from "../../async/limits.ts";
import { StoreUnavailableError } from "../../core/errors.ts";

/** What a request proves its user with. Every login makes a new object. */
export interface Credential {
  /** Undefined before the first login, and if authentication is disabled in etcd. */
  readonly token: string | undefined;
}

export interface LoginsParts {
  readonly clock: Clock;
  readonly place: string;
  /** Asks etcd for a token. */
  authenticate(limitMs: number): Promise<string | undefined>;
}

/** A login goes on after the request that started it has given up. */
const LOGIN_MIN_MS = 5_000;

export class Logins {
  readonly #parts: LoginsParts;
  #current: Credential = { token: undefined };
  #inProgress: Promise<void> | undefined;

  constructor(parts: LoginsParts) {
    this.#parts = parts;
  }

  get current(): Credential {
    return this.#current;
  }

  /**
   * Waits for the login in progress, and starts one if etcd rejected the current credential.
   * Undefined if there is nothing to wait for, which saves most requests a turn of the event loop.
   */
  ready(rejected: Credential | undefined, limitMs: number): Promise<void> | undefined {
    if (rejected === this.#current) this.#inProgress ??= this.#logIn(limitMs);
    const login = this.#inProgress;
    if (login === undefined) return undefined;
    const { clock, place } = this.#parts;
    return new Promise((resolve, reject) => {
      const limit = getSharedLimits(clock).start(limitMs, () => {
        const message = `etcd at ${place} did not answer the login within ${Math.round(limitMs)} ms.`;
        reject(new StoreUnavailableError(message, { applied: "no" }));
      });
      login.finally(() => limit.end()).then(resolve, reject);
    });
  }

  async #logIn(limitMs: number): Promise<void> {
    try {
      this.#current = {
        token: await this.#parts.authenticate(Math.max(limitMs, LOGIN_MIN_MS)),
      };
    } finally {
      this.#inProgress = undefined;
    }
  }
}
