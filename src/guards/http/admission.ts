// Decides whether a request may run: reads the token from the header, verifies it, compares it, and
// waits for its turn. It does not depend on a framework. A rejection is returned as a value, and
// enter() never throws.

import type { Clock } from "../../async/clock.ts";
import type { Held } from "../../async/context.ts";
import { InvalidArgumentError, isTenureError } from "../../core/errors.ts";
import { checkResource } from "../../core/resource.ts";
import { UntrustedTokenError } from "../../core/untrusted-token.ts";
import type { Guard, TokenSource } from "../guard.ts";
import { HEADER, type Offered, parseHeader } from "./header.ts";
import { Pace } from "./pace.ts";
import {
  malformed,
  missing,
  noTurn,
  otherResource,
  type Refusal,
  toRefusal,
  unavailable,
} from "./refusal.ts";
import { NoTurnError, type Patience, Turns } from "./turns.ts";

export interface AdmissionOptions {
  readonly guard: Guard;
  readonly resource?: string | undefined;
  readonly resourceOf?: ((request: unknown) => string) | undefined;
  readonly signedBy?: { verify(text: string): TokenSource } | undefined;
  readonly exclusive?: boolean | undefined;
  readonly waitMs: number;
  readonly clock: Clock;
  /** Must not throw. */
  readonly onError: (error: unknown) => void;
}

export interface Admitted {
  readonly held: Held;
  /**
   * Must be called when the handler has ended. Requests with a higher token may then start. Further
   * calls do nothing.
   */
  leave(): void;
}

export interface Arrival {
  /** The object that the framework passes to handlers. */
  readonly request: unknown;
  /** The object that tokenOf() will be called with. */
  readonly key: object;
  readonly header: string | undefined;
  readonly onGone: Patience["onGone"];
}

export class Admission {
  readonly #options: AdmissionOptions;
  readonly #turns: Turns;
  readonly #pace: Pace;
  readonly #known = new WeakMap<object, TokenSource>();
  /** Caches the last parsed header, because a holder sends the same one with every request. */
  #latest: { readonly header: string; readonly offered: Offered } | undefined;

  constructor(options: AdmissionOptions) {
    this.#options = options;
    this.#turns = Turns.forGuard(options.guard, options.clock);
    this.#pace = new Pace(options.clock);
  }

  tokenOf(request: object): TokenSource | undefined {
    return this.#known.get(request);
  }

  async enter({ request, key, header, onGone }: Arrival): Promise<Admitted | Refusal> {
    try {
      const resource = this.#resourceOf(request);
      const offered = this.#read(header, resource);
      if ("status" in offered) return offered;
      if (offered.resource !== resource) return otherResource(resource, offered.resource);
      const { token } = offered;
      const held: Held = { resource, token, check: () => token };
      const leave = await this.#compare(held, onGone);
      this.#known.set(key, held);
      return { held, leave };
    } catch (error) {
      if (error instanceof NoTurnError) return noTurn(error.reason);
      const refusal = toRefusal(error);
      if (refusal === undefined) this.#options.onError(error);
      else if (isTenureError(error, "STALE_TOKEN")) await this.#pace.next();
      return refusal ?? unavailable();
    }
  }

  async #compare(held: Held, onGone: Patience["onGone"]): Promise<() => void> {
    const { exclusive = true, waitMs } = this.#options;
    if (exclusive) return this.#turns.enter(held, { waitMs, onGone });
    await this.#turns.compare(held);
    return () => undefined;
  }

  #resourceOf(request: unknown): string {
    const { resource, resourceOf } = this.#options;
    if (resourceOf === undefined) return checkResource(resource);
    try {
      return checkResource(resourceOf(request));
    } catch (cause) {
      // The name comes from the request, so an invalid one is an error of the client.
      const message = "This request names no resource that can be guarded.";
      throw new InvalidArgumentError(message, { cause });
    }
  }

  #read(header: string | undefined, resource: string): TokenSource | Refusal {
    if (header === undefined || header === "") return missing(resource);
    const { signedBy } = this.#options;
    if (this.#latest?.header !== header) this.#latest = { header, offered: parseHeader(header) };
    const { offered } = this.#latest;
    if (offered.kind === "signed") {
      if (signedBy !== undefined) return signedBy.verify(offered.text);
      return malformed("This service takes plain tokens, not signed ones.");
    }
    if (signedBy === undefined) return offered;
    throw new UntrustedTokenError(
      `This service takes signed tokens only: ${HEADER}: signed="..."`,
      { reason: "unsigned" },
    );
  }
}
