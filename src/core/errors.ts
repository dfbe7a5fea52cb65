// The error classes of the package, except TimingError and UntrustedTokenError, which have files of
// their own. Each error has a stable `code`, says whether a retry can help, and carries the facts
// that a caller needs to decide what to do. Use `isTenureError(error, code)` to recognise an error:
// unlike `instanceof`, it also works when two copies of the package are loaded. Messages are for
// people and may change.
//
// All constructors take `(message, facts)`. Where the facts determine the message, a static
// `from(facts)` composes it; stores and guards written by users can call either.

import type { TimingError } from "./timing.ts";
import type { UntrustedTokenError } from "./untrusted-token.ts";

const MARK = Symbol.for("tenure.error");

/** The class of each error code. `isTenureError(error, code)` narrows to it. */
export interface ErrorByCode {
  /** The resource stayed busy for all of `waitMs`. */
  readonly ACQUIRE_TIMEOUT: AcquireTimeoutError;
  /** The lease has ended, and its holder may no longer act. */
  readonly LEASE_LOST: LeaseLostError;
  /** A renewal failed and is being retried; the lease may have ended. */
  readonly LEASE_IN_DOUBT: LeaseInDoubtError;
  /** The lease is being released and accepts no new work. */
  readonly DRAINING: DrainingError;
  /** A guard has seen a higher token and rejected the write. */
  readonly STALE_TOKEN: StaleTokenError;
  /** A guard could not establish that the token was granted. */
  readonly UNTRUSTED_TOKEN: UntrustedTokenError;
  /** The store did not answer. */
  readonly STORE_UNAVAILABLE: StoreUnavailableError;
  /** A guard did not answer. */
  readonly GUARD_UNAVAILABLE: GuardUnavailableError;
  /** The durations of a lease contradict each other. */
  readonly TIMING: TimingError;
  /** The store has lost data: it granted a token that is not above an earlier one. */
  readonly TOKEN_REGRESSION: TokenRegressionError;
  /** The caller passed something that can never work. */
  readonly INVALID_ARGUMENT: InvalidArgumentError;
  /** The store can never be used in its present state. */
  readonly STORE_UNUSABLE: StoreUnusableError;
  /** The Tenure, store or guard has been closed. */
  readonly CLOSED: ClosedError;
}

/** The stable code of an error. Messages may change between versions; codes do not. */
export type ErrorCode = keyof ErrorByCode;

/** What every TenureError carries besides its message. */
export interface ErrorFacts {
  /** The stable code of the error. */
  readonly code: ErrorCode;
  /** Whether the same call may succeed later without any change. */
  readonly retryable: boolean;
  /** The resource that the failed call was about. Absent if it concerned none. */
  readonly resource?: string | undefined;
  /** The error that led to this one, such as that of a client library. */
  readonly cause?: unknown;
}

/** The base class of every error that Tenure throws. Recognise it with isTenureError(). */
export class TenureError extends Error {
  /** The stable code of the error. Each code belongs to one subclass, see ErrorByCode. */
  readonly code: ErrorCode;
  /** Whether the same call may succeed later without any change. */
  readonly retryable: boolean;
  /** The resource that the failed call was about; undefined if it concerned none. */
  readonly resource: string | undefined;

  constructor(message: string, facts: ErrorFacts) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.name = new.target.name;
    this.code = facts.code;
    this.retryable = facts.retryable;
    this.resource = facts.resource;
  }
}

// On the prototype, so that it costs nothing per error and is found across copies of the package.
Object.defineProperty(TenureError.prototype, MARK, { value: true });

/**
 * True for an error of this package, including one thrown by another copy of it. With a code, true
 * only for that kind of error, and the type narrows to its class.
 */
export function isTenureError(error: unknown): error is TenureError;
/** With a code: true only for errors with this code, and the type narrows to their class. */
export function isTenureError<Code extends ErrorCode>(
  error: unknown,
  code: Code,
): error is ErrorByCode[Code];
export function isTenureError(error: unknown, code?: ErrorCode): boolean {
  return (
    typeof error === "object" &&
    error !== null &&
    (error as { [MARK]?: unknown })[MARK] === true &&
    (code === undefined || (error as TenureError).code === code)
  );
}

/**
 * How the holder of a busy resource relates to the caller. `self`: the same Tenure. `namesake`: a
 * holder with the same holderId, such as another Tenure of the same process.
 */
export type HeldByWhom = "self" | "namesake" | "other";

/** The resource stayed busy for all of `waitMs`. */
export class AcquireTimeoutError extends TenureError {
  /** How long the call was allowed to wait, in milliseconds. */
  readonly waitMs: number;
  /** The holder when the wait ended, if the store reported it. */
  readonly heldBy: string | undefined;

  constructor(
    message: string,
    facts: {
      readonly resource: string;
      readonly waitMs: number;
      readonly heldBy?: string | undefined;
    },
  ) {
    super(message, { code: "ACQUIRE_TIMEOUT", retryable: true, resource: facts.resource });
    this.waitMs = facts.waitMs;
    this.heldBy = facts.heldBy;
  }

  /** Composes the message from the facts. */
  static from(facts: {
    readonly resource: string;
    readonly waitMs: number;
    readonly heldBy?: string | undefined;
    /** @default "other" */
    readonly whom?: HeldByWhom | undefined;
  }): AcquireTimeoutError {
    const { resource, waitMs, heldBy, whom = "other" } = facts;
    const holder = heldBy === undefined ? "" : ` (held by ${heldBy}${WHOM[whom]})`;
    const advice = whom === "self" ? NOT_REENTRANT : WAIT_LONGER;
    const message = `"${resource}" stayed busy for ${waitMs} ms${holder}. ${advice}`;
    return new AcquireTimeoutError(message, facts);
  }
}

const WHOM: Readonly<Record<HeldByWhom, string>> = {
  self: ", this very Tenure",
  namesake: ", which is this Tenure's own holderId",
  other: "",
};
const WAIT_LONGER =
  "Wait longer (waitMs), or use tryAcquire() to get undefined instead of this error.";
const NOT_REENTRANT =
  "Leases are not reentrant: inside the work of a lease, use that lease (currentLease()). For other work of this process, " +
  "wait longer (waitMs).";

/**
 * Why a lease ended. `expired`: it was not renewed in time, or the clock jumped. `revoked`: a third
 * party ended it. `released`: its own holder released it.
 */
export type LossReason = "expired" | "revoked" | "released";

/**
 * The holder may no longer act. Work done after `confirmedAt` may have overlapped with the work of
 * another holder.
 */
export class LeaseLostError extends TenureError {
  /** Why the lease ended. */
  readonly reason: LossReason;
  /** The fencing token of the lost lease. */
  readonly token: bigint;
  /** When the store last confirmed this lease, by the wall clock. For logs. */
  readonly confirmedAt: Date;

  constructor(
    message: string,
    facts: {
      readonly resource: string;
      readonly reason: LossReason;
      readonly token: bigint;
      readonly confirmedAt: Date;
      readonly cause?: unknown;
    },
  ) {
    const { resource, cause } = facts;
    super(message, { code: "LEASE_LOST", retryable: false, resource, cause });
    this.reason = facts.reason;
    this.token = facts.token;
    this.confirmedAt = facts.confirmedAt;
  }

  /** Composes the message from the facts. `detail` replaces the reason in it. */
  static from(facts: {
    readonly resource: string;
    readonly reason: LossReason;
    readonly token: bigint;
    readonly confirmedAt: Date;
    readonly detail?: string | undefined;
    readonly cause?: unknown;
  }): LeaseLostError {
    const { resource, token, reason, detail = reason, confirmedAt } = facts;
    return new LeaseLostError(
      `The lease on "${resource}" (token ${token}) is lost: ${detail}. ` +
        `Last confirmed at ${confirmedAt.toISOString()}.`,
      facts,
    );
  }
}

/**
 * The lease may or may not still be held: a renewal failed, or the wall clock moved forward, and no
 * renewal has been confirmed since. `cause` says which. Await `lease.confirmed()` before acting.
 */
export class LeaseInDoubtError extends TenureError {
  constructor(message: string, facts: { readonly resource: string; readonly cause?: unknown }) {
    const { resource, cause } = facts;
    super(message, { code: "LEASE_IN_DOUBT", retryable: true, resource, cause });
  }

  /** Composes the message from the facts. */
  static from(facts: { readonly resource: string; readonly cause?: unknown }): LeaseInDoubtError {
    return new LeaseInDoubtError(
      `The lease on "${facts.resource}" is in doubt: a renewal failed, or the wall clock moved forward, and a new renewal is ` +
        "not confirmed yet. " +
        'Await lease.confirmed() before acting, or acquire with whileInDoubt: "act".',
      facts,
    );
  }
}

/** New work was started on a lease that is being released. */
export class DrainingError extends TenureError {
  constructor(message: string, facts: { readonly resource: string }) {
    super(message, { code: "DRAINING", retryable: false, resource: facts.resource });
  }

  /** Composes the message from the facts. */
  static from(facts: { readonly resource: string }): DrainingError {
    return new DrainingError(
      `The lease on "${facts.resource}" is draining: it finishes work in flight and starts none.`,
      facts,
    );
  }
}

/** Two tokens of one resource, of which the second should have been the lower one. */
export interface TokenFacts {
  /** The resource that both tokens belong to. */
  readonly resource: string;
  /** The token that was rejected. */
  readonly offered: bigint;
  /** The highest token seen before. */
  readonly highest: bigint;
}

/**
 * A guard rejected a token below the highest it has admitted or was advanced to. Nothing was
 * written.
 */
export class StaleTokenError extends TenureError {
  /** The token that the guard rejected. */
  readonly offered: bigint;
  /** The highest token that the guard has seen for this resource. */
  readonly highest: bigint;

  constructor(message: string, facts: TokenFacts) {
    super(message, { code: "STALE_TOKEN", retryable: false, resource: facts.resource });
    this.offered = facts.offered;
    this.highest = facts.highest;
  }

  /** Composes the message from the facts. For guards of your own, too. */
  static from(facts: TokenFacts): StaleTokenError {
    return new StaleTokenError(
      `Token ${facts.offered} for "${facts.resource}" is stale: ${facts.highest} has been seen. ` +
        "A newer holder has taken over; nothing was written.",
      facts,
    );
  }
}

/**
 * The store did not answer. `applied: "no"` means that nothing changed there. `"unknown"` means
 * that the request may have been carried out, or may still be.
 */
export class StoreUnavailableError extends TenureError {
  /** `"no"` if nothing changed in the store; `"unknown"` if the request may have been applied. */
  readonly applied: "no" | "unknown";

  constructor(
    message: string,
    facts: {
      readonly applied: "no" | "unknown";
      readonly resource?: string | undefined;
      readonly cause?: unknown;
    },
  ) {
    const { resource, cause } = facts;
    super(message, { code: "STORE_UNAVAILABLE", retryable: true, resource, cause });
    this.applied = facts.applied;
  }
}

/**
 * A guard did not answer. `applied: "no"` means that nothing was written. `"unknown"` means that
 * the write may have been done, or may still be: read the resource to find out. Advancing again is
 * safe in any case.
 */
export class GuardUnavailableError extends TenureError {
  /** `"no"` if nothing was written; `"unknown"` if the write may have been done. */
  readonly applied: "no" | "unknown";

  constructor(
    message: string,
    facts: {
      readonly resource: string;
      readonly applied: "no" | "unknown";
      readonly cause?: unknown;
    },
  ) {
    const { resource, cause } = facts;
    super(message, { code: "GUARD_UNAVAILABLE", retryable: true, resource, cause });
    this.applied = facts.applied;
  }

  /** Composes the message from the facts. `detail` is a sentence without its full stop. */
  static from(facts: {
    readonly resource: string;
    readonly detail: string;
    readonly applied: "no" | "unknown";
    readonly cause?: unknown;
  }): GuardUnavailableError {
    return new GuardUnavailableError(
      `The guard of "${facts.resource}" cannot be used for now: ${facts.detail}.`,
      facts,
    );
  }
}

/**
 * The store offered a token that is not above one seen before, so it has lost data. The grant was
 * given back.
 */
export class TokenRegressionError extends TenureError {
  /** The token that the store granted. */
  readonly offered: bigint;
  /** The highest token of this resource that this process has seen. */
  readonly highest: bigint;

  constructor(message: string, facts: TokenFacts) {
    super(message, { code: "TOKEN_REGRESSION", retryable: false, resource: facts.resource });
    this.offered = facts.offered;
    this.highest = facts.highest;
  }

  /** Composes the message from the facts. */
  static from(facts: TokenFacts): TokenRegressionError {
    return new TokenRegressionError(
      `The store offered token ${facts.offered} for "${facts.resource}" after ${facts.highest}: it lost data ` +
        "(restored from a copy, failed over, or wiped). Bring it back to its newest state before anyone acts.",
      facts,
    );
  }
}

/** The caller passed something that can never work. The message says what to change. */
export class InvalidArgumentError extends TenureError {
  constructor(
    message: string,
    facts: { readonly resource?: string | undefined; readonly cause?: unknown } = {},
  ) {
    super(message, { code: "INVALID_ARGUMENT", retryable: false, ...facts });
  }
}

/**
 * The store can never be used as it is: a foreign or damaged file, a missing client library, a
 * read-only disk.
 */
export class StoreUnusableError extends TenureError {
  constructor(message: string, facts: { readonly cause?: unknown } = {}) {
    super(message, { code: "STORE_UNUSABLE", retryable: false, ...facts });
  }
}

/** The call came after `close()`, or `close()` ended it. */
export class ClosedError extends TenureError {
  constructor(message: string, facts: { readonly cause?: unknown } = {}) {
    super(message, { code: "CLOSED", retryable: false, ...facts });
  }

  /** Composes the message from the facts. `what` starts a sentence: "This Tenure". */
  static from(facts: { readonly what: string; readonly cause?: unknown }): ClosedError {
    const { what, cause } = facts;
    return new ClosedError(`${what} is closed. Connect again to go on.`, { cause });
  }
}
