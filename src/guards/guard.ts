// The rule of every guard (S2). A guard stands before a resource and remembers the highest token it has admitted or
// was raised to. One atomic step of the resource itself compares the offered token with that highest and writes, or
// refuses with StaleTokenError and changes nothing. So a former holder is harmless whatever any clock says.
// Each guard has its own form of that step (a transaction, a script, a request); what they share is here.

import { InvalidArgumentError, StaleTokenError } from "../core/errors.ts";
import { checkResource } from "../core/resource.ts";
import { admits, checkToken } from "../core/token.ts";

/**
 * A lease, or the two facts of one. Prefer the lease: its `check()` is then called at the last moment before the
 * write. Bare facts are for a token that came over a wire; they rest on the comparison alone, which is enough for
 * safety and merely later to refuse.
 */
export interface TokenSource {
  readonly resource: string;
  readonly token: bigint;
  /** Throws when the holder may not act now; answers the token otherwise. */
  check?(): bigint;
}

/** What all guards can do besides their own guarded write. Await the answers: some guards reach over a network. */
export interface Guard {
  /**
   * Moves the highest up to this token without writing anything else. Called between a grant and the first write of
   * the new holder, so that the old one is refused from then on. Throws StaleTokenError for a lower token; an equal
   * one changes nothing.
   */
  raise(source: TokenSource): void | Promise<void>;
  /** The highest token seen for the resource; undefined before the first. For people and tests: it may rise at once. */
  highest(resource: string): bigint | undefined | Promise<bigint | undefined>;
}

/** Refuses bad input before anything is locked or asked. */
export function checkSource(source: TokenSource): TokenSource {
  if (typeof source !== "object" || source === null) {
    throw new InvalidArgumentError(
      `A guard needs a lease or { resource, token }, got ${String(source)}.`,
    );
  }
  checkResource(source.resource);
  checkToken(source.token);
  return source;
}

/**
 * The decision, to be taken inside the resource's atomic step: throws when the holder or its token is not fit to
 * write, else answers the token that the highest has to become. Equal is the same term and passes.
 */
export function admit(source: TokenSource, highest: bigint | undefined): bigint {
  // Asked here and not at the door, because waiting for the resource's lock may have outlasted the lease.
  const token = source.check === undefined ? source.token : checkToken(source.check());
  if (highest !== undefined && !admits(highest, token)) {
    throw new StaleTokenError({ resource: source.resource, offered: token, highest });
  }
  return token;
}

/** For guards whose atomic step cannot wait: an `async` function is refused before any of it has run. */
export function refuseAsync(write: unknown): void {
  if (typeof write !== "function") {
    throw new InvalidArgumentError(
      `A guard needs a function that does the write, got ${typeof write}.`,
    );
  }
  if (Object.prototype.toString.call(write) === "[object AsyncFunction]") throw notSynchronous();
}

/** The same for a plain function that turns out to have returned a promise. */
export function refusePromise(result: unknown): void {
  if (typeof (result as { then?: unknown } | null | undefined)?.then !== "function") return;
  // Nobody will look at this promise any more; its failure must not end the process.
  Promise.resolve(result).catch(() => undefined);
  throw notSynchronous();
}

function notSynchronous(): InvalidArgumentError {
  return new InvalidArgumentError(
    "The guarded function must be synchronous: what it did after an `await` would fall outside the comparison. " +
      "Await before or after the guarded step, and only write inside it.",
  );
}
