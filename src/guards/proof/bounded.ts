// A bound without keys: a guard that asks the store before it believes a token higher than any it has seen. So a client that
// shows 2^127 - 1 is refused, instead of shutting out every holder for good. It asks once per term, by one linearizable
// read; every further write of the term costs a comparison in this process. What is in the store by then is the truth: a
// token was granted before anybody could show it.

import { currentHeld } from "../../async/context.ts";
import { enterLastingGuard, onLastingGuard } from "../../async/lasting-guard.ts";
import {
  GuardUnavailableError,
  InvalidArgumentError,
  isTenureError,
  UntrustedTokenError,
} from "../../core/errors.ts";
import {
  type AdvanceOptions,
  checkBound,
  GUARD_OPTIONS,
  type Guard,
  type GuardOptions,
  sourceOf,
  type TokenSource,
} from "../guard.ts";

/** What is asked of whoever grants the leases; a Tenure has it. */
export interface TokenIssuer {
  read(
    resource: string,
    options: { readonly consistency: "linearizable" },
  ): Promise<{ readonly holder?: { readonly token: bigint } | undefined }>;
}

/** The same guard; only its advance() always has to be awaited, because it may ask the store. */
export type Bounded<G extends Guard> = Omit<G, "advance"> & {
  advance(source?: TokenSource, options?: AdvanceOptions): Promise<void>;
};

/**
 * `boundedBy(guard, tenure)`: a token above those seen so far is admitted only when the store shows that the resource is held
 * with it or with a larger one. Otherwise UntrustedTokenError (`notHeld`); when the store cannot be asked,
 * GuardUnavailableError (`applied: "no"`). Nothing is written or advanced in either case.
 *
 * A guard whose writes do not wait (memory, SQLite) cannot ask in the middle of one: advance it first, as
 * `acquire(..., { guards })` does. With `resource`, give it here too.
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
      "boundedBy(guard, tenure) needs whoever grants the leases: what connect() resolves with.",
    );
  }
  const bound = new Bound(issuer);
  const resource = checkBound("boundedBy()", options, GUARD_OPTIONS);
  return new Proxy(guard, {
    get: (target, name) => {
      const value = Reflect.get(target, name, target) as unknown;
      if (typeof value !== "function") return value;
      const method = value as (...args: unknown[]) => unknown;
      if (name === "advance") {
        return (given?: TokenSource, settings?: AdvanceOptions) => advance(target, given, settings);
      }
      // Everything else that a guard can do is a write, whatever it is called.
      if (UNGUARDED.has(name) || typeof name === "symbol") return method.bind(target);
      return (...args: unknown[]) => write((own) => method.apply(target, own), args);
    },
  }) as unknown as Bounded<G>;

  async function advance(
    target: Guard,
    given: TokenSource | undefined,
    settings: AdvanceOptions | undefined,
  ): Promise<void> {
    const source = sourceOf(given, resource);
    await bound.ask(source);
    await target.advance(source, settings);
  }

  function write(act: (args: unknown[]) => unknown, args: unknown[]): unknown {
    const isGiven = isSource(args[0]);
    const source = isGiven ? args[0] : (currentHeld(resource) ?? currentHeld());
    // Without a lease there is nothing to bound; the guard refuses by itself.
    if (source === undefined) return act(args);
    const checked = bound.checked(source as TokenSource);
    const own = [checked, ...(isGiven ? args.slice(1) : args)];
    const result = act(own);
    if (!(result instanceof Promise)) return result;
    return result.catch(async (error: unknown) => {
      if (error !== checked.refusal) throw error;
      // Refused by the check, before anything was sent: this is the first try, not a second one.
      await bound.ask(checked);
      return act(own);
    });
  }
}

const UNGUARDED: ReadonlySet<PropertyKey> = new Set(["highest", "close"]);

function isSource(given: unknown): given is TokenSource {
  return typeof given === "object" && given !== null && "token" in given;
}

interface Checked extends TokenSource {
  /** What check() threw last, when it was for the bound. */
  refusal?: UntrustedTokenError;
}

/** The largest tokens, by resource, that the store is known to have granted. */
class Bound {
  readonly #issuer: TokenIssuer;
  readonly #granted = new Map<string, bigint>();

  constructor(issuer: TokenIssuer) {
    this.#issuer = issuer;
  }

  /** The same source, whose check() refuses what has not been asked for yet. Guards call it before anything is sent. */
  checked(source: TokenSource): Checked {
    const checked: Checked = {
      resource: source.resource,
      token: source.token,
      check: () => {
        const token = source.check === undefined ? source.token : source.check();
        if (this.#covers(source.resource, token)) return token;
        checked.refusal = new UntrustedTokenError(
          "notHeld",
          `Token ${token} for "${source.resource}" is above all that this guard has asked the store about. Nothing was written. ` +
            "Advance the guard first: await guard.advance(lease), or acquire with { guards: [guard] }.",
          { resource: source.resource },
        );
        throw checked.refusal;
      },
    };
    onLastingGuard(checked, () => enterLastingGuard(source));
    return checked;
  }

  async ask({ resource, token }: TokenSource): Promise<void> {
    if (this.#covers(resource, token)) return;
    const granted = await this.#grantedFor(resource, token);
    if (granted === undefined || granted < token) {
      const found = granted === undefined ? "nobody holds it" : `it is held with token ${granted}`;
      throw new UntrustedTokenError(
        "notHeld",
        `The store has no lease on "${resource}" that reaches token ${token}: ${found}. Nothing was written.`,
        { resource },
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
      throw new GuardUnavailableError({ resource, detail, applied: "no", cause });
    }
  }
}
