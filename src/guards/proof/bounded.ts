// boundedBy(): wraps a guard so that it queries the store before it admits a token higher than any
// it has seen. A client that presents 2^127 - 1 is then rejected, instead of locking out every
// holder for good. One linearizable read per term is enough, because a store records a token before
// any client can present it. Every further write of the term costs a comparison in this process.

import { currentHeld } from "../../async/context.ts";
import { enterLastingGuard, onLastingGuard } from "../../async/lasting-guard.ts";
import { GuardUnavailableError, InvalidArgumentError, isTenureError } from "../../core/errors.ts";
import { UntrustedTokenError } from "../../core/untrusted-token.ts";
import {
  type AdvanceOptions,
  checkBound,
  GUARD_OPTIONS,
  type Guard,
  type GuardOptions,
  resolveSource,
  type TokenSource,
} from "../guard.ts";

/** The store that grants the leases. A Tenure implements this. */
export interface TokenIssuer {
  /** Reads the holder of a resource, as `Tenure.read()` does. */
  read(
    resource: string,
    options: { readonly consistency: "linearizable" },
  ): Promise<{ readonly holder?: { readonly token: bigint } | undefined }>;
}

/** What a bounded guard shares with the guard that it wraps, besides the methods that write. */
type SharedKeys = "highest" | "close" | "writeMethods" | typeof Symbol.asyncDispose;

type WriteMethods<G extends Guard> = G["writeMethods"] extends readonly (infer Name)[]
  ? Name
  : never;

/**
 * The guard with the same methods to write. advance() always returns a promise, because it may
 * query the store.
 */
export type Bounded<G extends Guard> = Pick<G, (WriteMethods<G> | SharedKeys) & keyof G> & {
  advance(source?: TokenSource, options?: AdvanceOptions): Promise<void>;
};

/**
 * `boundedBy(guard, tenure)` admits a token above those seen so far only if the store shows that
 * the resource is held with this token or a higher one. Otherwise it throws UntrustedTokenError
 * (`notHeld`), or GuardUnavailableError (`applied: "no"`) if the store does not answer. Nothing is
 * written or advanced in either case.
 *
 * A guard whose writes are synchronous (memory, SQLite) cannot query the store during a write.
 * Advance it first, as `acquire(..., { guards })` does. If the guard has the option `resource`,
 * pass it here, too.
 */
export function boundedBy<G extends Guard>(
  guard: G,
  issuer: TokenIssuer,
  options: GuardOptions = {},
): Bounded<G> {
  if (typeof guard?.advance !== "function") {
    throw new InvalidArgumentError(
      "boundedBy(guard, tenure) needs a guard first, e.g. sqliteGuard(database).",
    );
  }
  if (typeof issuer?.read !== "function") {
    throw new InvalidArgumentError(
      "boundedBy(guard, tenure) needs the Tenure that grants the leases, as connect() returns it.",
    );
  }
  const bound = new Bound(issuer, checkBound("boundedBy()", options, GUARD_OPTIONS));
  const methods = guard as unknown as Readonly<Record<PropertyKey, Method | undefined>>;
  const bounded: Record<PropertyKey, unknown> = {
    writeMethods: guard.writeMethods,
    highest: (name: string) => guard.highest(name),
    advance: (source?: TokenSource, settings?: AdvanceOptions) =>
      bound.advance(guard, source, settings),
  };
  for (const name of guard.writeMethods ?? []) {
    bounded[name] = (...args: unknown[]) => bound.write((own) => methods[name]?.(...own), args);
  }
  for (const name of ["close", Symbol.asyncDispose]) {
    if (typeof methods[name] === "function") bounded[name] = () => methods[name]?.();
  }
  return bounded as Bounded<G>;
}

type Method = (...args: unknown[]) => unknown;

function isSource(given: unknown): given is TokenSource {
  return typeof given === "object" && given !== null && "token" in given;
}

interface Checked extends TokenSource {
  /** The error that check() threw, if it was because of the bound. */
  refusal?: UntrustedTokenError;
}

/** Remembers, by resource, the largest token that the store is known to have granted. */
class Bound {
  readonly #issuer: TokenIssuer;
  readonly #resource: string | undefined;
  readonly #granted = new Map<string, bigint>();

  constructor(issuer: TokenIssuer, resource: string | undefined) {
    this.#issuer = issuer;
    this.#resource = resource;
  }

  async advance(guard: Guard, given?: TokenSource, settings?: AdvanceOptions): Promise<void> {
    const source = resolveSource(given, this.#resource);
    await this.#verify(source);
    await guard.advance(source, settings);
  }

  write(act: (args: unknown[]) => unknown, args: unknown[]): unknown {
    const isGiven = isSource(args[0]);
    const source = isGiven ? args[0] : (currentHeld(this.#resource) ?? currentHeld());
    // Without a lease there is no token to verify, and the guard rejects the call itself.
    if (source === undefined) return act(args);
    const checked = this.#checked(source as TokenSource);
    const ownArgs = [checked, ...(isGiven ? args.slice(1) : args)];
    const result = act(ownArgs);
    if (!(result instanceof Promise)) return result;
    return result.catch(async (error: unknown) => {
      if (error !== checked.refusal) throw error;
      // The check threw before anything was sent, so this does not repeat a write.
      await this.#verify(checked);
      return act(ownArgs);
    });
  }

  /**
   * A copy of the source whose check() throws for a token that has not been verified. Guards call
   * check() before they send anything.
   */
  #checked(source: TokenSource): Checked {
    const checked: Checked = {
      resource: source.resource,
      token: source.token,
      check: () => {
        const token = source.check === undefined ? source.token : source.check();
        if (this.#covers(source.resource, token)) return token;
        checked.refusal = new UntrustedTokenError(
          `Token ${token} for "${source.resource}" is above every token that this guard has verified with the store. Nothing was written. ` +
            "Advance the guard first: await guard.advance(lease), or acquire with { guards: [guard] }.",
          { reason: "notHeld", resource: source.resource },
        );
        throw checked.refusal;
      },
    };
    onLastingGuard(checked, () => enterLastingGuard(source));
    return checked;
  }

  /** Queries the store, unless it has already confirmed this token or a higher one. */
  async #verify({ resource, token }: TokenSource): Promise<void> {
    if (this.#covers(resource, token)) return;
    const granted = await this.#grantedFor(resource, token);
    if (granted === undefined || granted < token) {
      const found = granted === undefined ? "it is not held" : `it is held with token ${granted}`;
      throw new UntrustedTokenError(
        `The store has no lease on "${resource}" that reaches token ${token}: ${found}. Nothing was written.`,
        { reason: "notHeld", resource },
      );
    }
    if (!this.#covers(resource, granted)) this.#granted.set(resource, granted);
  }

  #covers(resource: string, token: bigint): boolean {
    return token <= (this.#granted.get(resource) ?? 0n);
  }

  async #grantedFor(resource: string, token: bigint): Promise<bigint | undefined> {
    try {
      const { holder } = await this.#issuer.read(resource, { consistency: "linearizable" });
      return holder?.token;
    } catch (cause) {
      if (isTenureError(cause, "INVALID_ARGUMENT")) throw cause;
      const said = cause instanceof Error ? cause.message : String(cause);
      const detail = `the store could not be asked about token ${token} (${said}). Nothing was written`;
      throw GuardUnavailableError.from({ resource, detail, applied: "no", cause });
    }
  }
}
