// From a request's header to a handler that may run: read the token, believe it or not, compare, and wait for its turn.
// It knows no framework; what it refuses comes back as a value for whichever one is there.

import type { Held } from "../../core/context.ts";
import { InvalidArgumentError, UntrustedTokenError } from "../../core/errors.ts";
import { checkResource } from "../../core/resource.ts";
import type { Guard, TokenSource } from "../guard.ts";
import { HEADER, type Offered, parseHeader } from "./header.ts";
import { crowded, malformed, missing, otherResource, type Refusal, refusalOf } from "./refusal.ts";
import { CrowdedError, Turns } from "./turns.ts";

export interface AdmissionOptions {
  readonly guard: Guard;
  readonly resource?: string | undefined;
  readonly resourceOf?: ((request: unknown) => string) | undefined;
  readonly signedBy?: { verify(text: string): TokenSource } | undefined;
  readonly exclusive?: boolean | undefined;
  readonly onError: (error: unknown) => void;
}

export interface Admitted {
  readonly held: Held;
  /** To be called when the handler has ended: then those of newer tokens may start. */
  leave(): void;
}

export class Admission {
  readonly #options: AdmissionOptions;
  readonly #turns: Turns;
  readonly #known = new WeakMap<object, TokenSource>();
  /** A holder sends the same header with every request. */
  #latest: { readonly header: string; readonly offered: Offered } | undefined;

  constructor(options: AdmissionOptions) {
    this.#options = options;
    this.#turns = new Turns(options.guard);
  }

  tokenOf(request: object): TokenSource | undefined {
    return this.#known.get(request);
  }

  /** `request` as the framework has it, `key` the object that tokenOf() will be asked with. */
  async enter(
    request: unknown,
    key: object,
    header: string | undefined,
  ): Promise<Admitted | Refusal> {
    try {
      const resource = this.#resourceOf(request);
      const offered = this.#read(header, resource);
      if ("status" in offered) return offered;
      if (offered.resource !== resource) return otherResource(resource, offered.resource);
      const { token } = offered;
      const held: Held = { resource, token, check: () => token };
      const leave = await this.#compare(held);
      this.#known.set(key, held);
      return { held, leave };
    } catch (error) {
      if (error instanceof CrowdedError) return crowded();
      const { refusal, isOurs } = refusalOf(error);
      if (!isOurs) this.#options.onError(error);
      return refusal;
    }
  }

  async #compare(held: Held): Promise<() => void> {
    if (this.#options.exclusive ?? true) return this.#turns.enter(held);
    await this.#options.guard.raise(held);
    return () => undefined;
  }

  #resourceOf(request: unknown): string {
    const { resource, resourceOf } = this.#options;
    if (resourceOf === undefined) return checkResource(resource);
    try {
      return checkResource(resourceOf(request));
    } catch (cause) {
      // The request names it, so a name that cannot be had is the request's fault.
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
      "unsigned",
      `This service takes signed tokens only: ${HEADER}: signed="..."`,
    );
  }
}
