// What all guards share: their interface, the checks of their arguments, and the rule (S2). A guard
// protects a resource and remembers the highest token that it has admitted or was advanced to. In
// one atomic step of the resource itself, it compares the offered token with that highest and
// writes, or throws StaleTokenError and changes nothing. A former holder is therefore harmless,
// whatever any clock says. Each guard has its own form of that step: a transaction, a script, a
// conditional request.

import { currentHeld } from "../async/context.ts";
import { enterLastingGuard } from "../async/lasting-guard.ts";
import { InvalidArgumentError, StaleTokenError } from "../core/errors.ts";
import { checkOptionNames, type OptionNames } from "../core/options.ts";
import { checkResource } from "../core/resource.ts";
import { admits, checkToken } from "../core/token.ts";

/**
 * A lease, or its resource and token. Prefer the lease, because the guard then calls its `check()`
 * right before the write. A bare token, such as one received over a network, relies on the
 * comparison alone. That is equally safe, but a lost lease is rejected later.
 */
export interface TokenSource {
  /** The resource that the token was granted for. */
  readonly resource: string;
  /** The fencing token of the lease. */
  readonly token: bigint;
  /** Returns the token, or throws if the holder may not act now. */
  check?(): bigint;
}

/** Options of every guard. */
export interface GuardOptions {
  /**
   * The only resource whose leases this guard accepts. Use it in a process that holds several
   * leases, so that it cannot write under the wrong one. @default the guard accepts all resources,
   * each with its own highest token
   */
  readonly resource?: string | undefined;
}

export const GUARD_OPTIONS: OptionNames<GuardOptions> = { resource: true };

/** Options of advance(). */
export interface AdvanceOptions {
  /**
   * How long the caller waits for the result, in milliseconds. A guard that has to wait for other
   * writers gives up before that and says why. Guards that do not wait ignore it. @default only the
   * limits of the guard itself
   */
  readonly limitMs?: number | undefined;
}

/** The methods that all guards share. Await the results, because some guards use a network. */
export interface Guard {
  /**
   * Raises the highest token to this one without writing anything else. Call it between a grant and
   * the first write of the new holder, so that the former holder is rejected from then on. Throws
   * StaleTokenError for a lower token. An equal one changes nothing. Without a source, it uses the
   * lease of the `lease.run()` around the call.
   */
  advance(source?: TokenSource, options?: AdvanceOptions): void | Promise<void>;
  /**
   * The highest token of the resource, or undefined before the first. For display and tests: it can
   * rise at any time.
   */
  highest(resource: string): bigint | undefined | Promise<bigint | undefined>;
  /**
   * The names of the methods that write. Each takes an optional TokenSource as its first argument
   * and calls its `check()` before anything is sent. `boundedBy()` wraps these methods and leaves
   * out all others. @default none
   */
  readonly writeMethods?: readonly string[];
}

/**
 * The given source, or else the lease of the `lease.run()` around the call. Rejects invalid input
 * and a lost lease before anything is locked or sent. The atomic step checks the lease again.
 */
export function resolveSource(
  given: TokenSource | undefined,
  bound?: string | undefined,
): TokenSource {
  const source = given === undefined ? (currentHeld(bound) ?? currentHeld()) : given;
  if (source === undefined) {
    throw new InvalidArgumentError(
      "A guarded write needs a lease, and there is none: call it inside lease.run() or withLease(), or pass the lease " +
        "or { resource, token }. Nothing was written.",
    );
  }
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

/** Like resolveSource(), for guards whose tokens outlive this process. */
export function resolveLastingSource(
  given: TokenSource | undefined,
  bound?: string | undefined,
): TokenSource {
  const source = resolveSource(given, bound);
  enterLastingGuard(source);
  return source;
}

function notASource(given: unknown): InvalidArgumentError {
  return new InvalidArgumentError(
    `A guard needs a lease or { resource, token }, got ${String(given)}. Nothing was written.`,
  );
}

/**
 * The two forms of a guarded write: (source, write), or (write) inside lease.run(). An explicit
 * undefined as the source is a mistake of the caller, such as an unchecked result of tryAcquire(),
 * and is rejected.
 */
export function splitArguments<Write>(
  args: readonly [TokenSource, Write] | readonly [Write],
): readonly [TokenSource | undefined, Write] {
  if (args.length === 1) return [undefined, args[0]];
  if (args[0] === undefined) throw notASource(undefined);
  return args;
}

/**
 * Checks the option names and returns the bound resource. `call` is the function that creates the
 * guard.
 */
export function checkBound<Options extends GuardOptions>(
  call: string,
  options: Options,
  known: OptionNames<Options>,
): string | undefined {
  checkOptionNames(call, options, known);
  return options.resource === undefined ? undefined : checkResource(options.resource);
}

/** Checks a time limit in milliseconds. */
export function checkLimit(name: string, ms: unknown): number {
  if (typeof ms === "number" && Number.isInteger(ms) && ms >= 1 && ms < 2 ** 31) return ms;
  throw new InvalidArgumentError(
    `\`${name}\` must be a whole number of milliseconds, at least 1, got ${String(ms)}.`,
  );
}

/**
 * The decision (S2). Must be called inside the atomic step of the resource. Throws if the lease is
 * lost or its token is stale. Otherwise returns the token that becomes the highest. An equal token
 * belongs to the same term and is admitted.
 */
export function admit(source: TokenSource, highest: bigint | undefined): bigint {
  // Checked here again, because the lease may have ended while we waited for the lock of the
  // resource.
  const token = source.check === undefined ? source.token : checkToken(source.check());
  if (highest !== undefined && !admits(highest, token)) {
    throw StaleTokenError.from({ resource: source.resource, offered: token, highest });
  }
  return token;
}

export function checkWrite(write: unknown): void {
  if (typeof write === "function") return;
  throw new InvalidArgumentError(
    `A guard needs a function that does the write, got ${typeof write}.`,
  );
}

/** For guards with a synchronous atomic step: rejects an `async` function before it is called. */
export function rejectAsync(write: unknown): void {
  checkWrite(write);
  if (Object.prototype.toString.call(write) === "[object AsyncFunction]") throw notSynchronous();
}

/** The same for a plain function that has returned a promise. */
export function rejectPromise(result: unknown): void {
  if (!isPromise(result)) return;
  // The promise is dropped, and its rejection must not end the process.
  Promise.resolve(result).catch(() => undefined);
  throw notSynchronous();
}

export function isPromise(result: unknown): boolean {
  return typeof (result as { then?: unknown } | null | undefined)?.then === "function";
}

function notSynchronous(): InvalidArgumentError {
  return new InvalidArgumentError(
    "The guarded function must be synchronous: code after an `await` would run outside the atomic step. " +
      "Await before or after the guarded step, and only write inside it.",
  );
}
