// The rule of every guard (S2). A guard stands before a resource and remembers the highest token it has admitted or
// was advanced to. One atomic step of the resource itself compares the offered token with that highest and writes, or
// refuses with StaleTokenError and changes nothing. So a former holder is harmless whatever any clock says.
// Each guard has its own form of that step (a transaction, a script, a request); what they share is here.

import { currentHeld } from "../async/context.ts";
import { enterLastingGuard } from "../async/lasting-guard.ts";
import { InvalidArgumentError, StaleTokenError } from "../core/errors.ts";
import { checkOptionNames, type OptionNames } from "../core/options.ts";
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

/** What every guard can be told. */
export interface GuardOptions {
  /**
   * The only resource whose leases this guard takes; those of others are refused. For a process that holds several
   * leases and must not write under the wrong one. @default none: the highest is kept under the lease's own resource
   */
  readonly resource?: string | undefined;
}

export const GUARD_OPTIONS: OptionNames<GuardOptions> = { resource: true };

/** What a caller of advance() may add. */
export interface AdvanceOptions {
  /**
   * How long the caller waits for the answer, in milliseconds. A guard that has to wait for others gives up before that, and
   * says why; the other guards answer at once and ignore it. @default no limit besides those of the guard itself
   */
  readonly limitMs?: number | undefined;
}

/** What all guards can do besides their own guarded write. Await the answers: some guards reach over a network. */
export interface Guard {
  /**
   * Moves the highest up to this token without writing anything else. Called between a grant and the first write of
   * the new holder, so that the old one is refused from then on. Throws StaleTokenError for a lower token; an equal
   * one changes nothing. Without a source: the lease of the `lease.run()` around the call.
   */
  advance(source?: TokenSource, options?: AdvanceOptions): void | Promise<void>;
  /** The highest token seen for the resource; undefined before the first. For people and tests: it may rise at once. */
  highest(resource: string): bigint | undefined | Promise<bigint | undefined>;
}

/**
 * Whose write it is: the given source, or else the lease of the `lease.run()` around the call. Refuses bad input and a
 * lease that may not act before anything is locked or asked; the atomic step asks the lease again.
 */
export function sourceOf(given: TokenSource | undefined, bound?: string | undefined): TokenSource {
  const source = given === undefined ? (currentHeld(bound) ?? currentHeld()) : given;
  if (source === undefined) throw noLease();
  if (typeof source !== "object" || source === null) throw notASource(source);
  checkResource(source.resource);
  checkToken(source.token);
  if (bound !== undefined && source.resource !== bound) {
    throw new InvalidArgumentError(
      `This guard is for "${bound}" and was given a lease of "${source.resource}". Nothing was written. ` +
        `Pass the lease of "${bound}", or open a guard without \`resource\`.`,
      { resource: source.resource },
    );
  }
  source.check?.();
  return source;
}

/** As sourceOf(), for guards whose tokens outlive this process. */
export function lastingSourceOf(
  given: TokenSource | undefined,
  bound?: string | undefined,
): TokenSource {
  const source = sourceOf(given, bound);
  enterLastingGuard(source);
  return source;
}

function noLease(): InvalidArgumentError {
  return new InvalidArgumentError(
    "A guarded write needs a lease, and there is none: call it inside lease.run() or withLease(), or pass the lease " +
      "or { resource, token }. Nothing was written.",
  );
}

function notASource(given: unknown): InvalidArgumentError {
  return new InvalidArgumentError(
    `A guard needs a lease or { resource, token }, got ${String(given)}. Nothing was written.`,
  );
}

/**
 * The two ways to call a guarded write: (source, write), or (write) inside lease.run(). A source that is there but
 * undefined is a mistake of the caller, such as an unseen answer of tryAcquire(), and not the second way.
 */
export function splitArguments<Write>(
  args: readonly [TokenSource, Write] | readonly [Write],
): readonly [TokenSource | undefined, Write] {
  if (args.length === 1) return [undefined, args[0]];
  if (args[0] === undefined) throw notASource(undefined);
  return args;
}

/**
 * The names of all options, and the bound resource, are checked when the guard is made. `call` is the function that makes it.
 */
export function checkBound<Options extends GuardOptions>(
  call: string,
  options: Options,
  known: OptionNames<Options>,
): string | undefined {
  checkOptionNames(call, options, known);
  return options.resource === undefined ? undefined : checkResource(options.resource);
}

/** A limit on time. */
export function checkLimit(name: string, ms: unknown): number {
  if (typeof ms === "number" && Number.isInteger(ms) && ms >= 1 && ms < 2 ** 31) return ms;
  throw new InvalidArgumentError(
    `\`${name}\` must be a whole number of milliseconds, at least 1, got ${String(ms)}.`,
  );
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
