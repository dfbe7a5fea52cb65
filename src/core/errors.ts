// Every error a caller can meet. One base class, a stable `code`, and the facts needed to decide what to do next.
// Tell kinds apart by `code` (or `isTenureError`), which also works when two copies of the package are loaded;
// the message is for people and may change.

const MARK = Symbol.for("tenure.error");

export type ErrorCode =
  | "ACQUIRE_TIMEOUT"
  | "LEASE_LOST"
  | "LEASE_IN_DOUBT"
  | "DRAINING"
  | "STALE_TOKEN"
  | "UNTRUSTED_TOKEN"
  | "STORE_UNAVAILABLE"
  | "GUARD_UNAVAILABLE"
  | "TIMING"
  | "TOKEN_REGRESSION"
  | "INVALID_ARGUMENT"
  | "STORE_UNUSABLE"
  | "CLOSED";

export interface ErrorFacts {
  readonly code: ErrorCode;
  /** Whether the same call may succeed later with nothing changed. */
  readonly retryable: boolean;
  readonly resource?: string | undefined;
  readonly cause?: unknown;
}

export class TenureError extends Error {
  readonly code: ErrorCode;
  readonly retryable: boolean;
  readonly resource: string | undefined;

  constructor(message: string, facts: ErrorFacts) {
    super(message, facts.cause === undefined ? undefined : { cause: facts.cause });
    this.name = new.target.name;
    this.code = facts.code;
    this.retryable = facts.retryable;
    this.resource = facts.resource;
  }
}

// On the prototype, so that it costs nothing per error and survives two copies of the package.
Object.defineProperty(TenureError.prototype, MARK, { value: true });

/** True for an error of this package, also from another copy of it; with a code, only for that kind. */
export function isTenureError(error: unknown, code?: ErrorCode): error is TenureError {
  return (
    typeof error === "object" &&
    error !== null &&
    (error as { [MARK]?: unknown })[MARK] === true &&
    (code === undefined || (error as TenureError).code === code)
  );
}

/**
 * Who held a busy resource, from the point of view of whoever wanted it. `self`: the same Tenure. `namesake`: a holder with
 * the same holderId, such as another Tenure of the same process.
 */
export type HeldByWhom = "self" | "namesake" | "other";

/** The resource stayed busy for all of `waitMs`. */
export class AcquireTimeoutError extends TenureError {
  readonly waitMs: number;
  /** Who held it when the wait ran out, where the store told. */
  readonly heldBy: string | undefined;

  constructor(facts: {
    resource: string;
    waitMs: number;
    heldBy?: string | undefined;
    whom?: HeldByWhom | undefined;
  }) {
    const { heldBy, whom = "other" } = facts;
    const holder = heldBy === undefined ? "" : ` (held by ${heldBy}${WHOM[whom]})`;
    super(
      `"${facts.resource}" stayed busy for ${facts.waitMs} ms${holder}. ${whom === "self" ? NOT_REENTRANT : WAIT_LONGER}`,
      { code: "ACQUIRE_TIMEOUT", retryable: true, resource: facts.resource },
    );
    this.waitMs = facts.waitMs;
    this.heldBy = facts.heldBy;
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
 * Why a lease ended. `expired`: its time ran out unrenewed, or the clock jumped. `revoked`: a third party ended it.
 * `released`: its own holder gave it back.
 */
export type LossReason = "expired" | "revoked" | "released";

/** The holder may no longer act. Work done after `confirmedAt` may have overlapped with another holder's. */
export class LeaseLostError extends TenureError {
  readonly reason: LossReason;
  readonly token: bigint;
  /** The last moment (wall clock, for logs) at which the store confirmed this lease. */
  readonly confirmedAt: Date;

  constructor(facts: {
    resource: string;
    reason: LossReason;
    token: bigint;
    confirmedAt: Date;
    detail?: string | undefined;
    cause?: unknown;
  }) {
    super(
      `The lease on "${facts.resource}" (token ${facts.token}) is lost: ${facts.detail ?? facts.reason}. ` +
        `Last confirmed at ${facts.confirmedAt.toISOString()}.`,
      { code: "LEASE_LOST", retryable: false, resource: facts.resource, cause: facts.cause },
    );
    this.reason = facts.reason;
    this.token = facts.token;
    this.confirmedAt = facts.confirmedAt;
  }
}

/**
 * The lease may or may not still be held: a renewal failed, or the wall clock moved forward, and no renewal has been confirmed
 * since. `cause` says which. Await `lease.confirmed()`.
 */
export class LeaseInDoubtError extends TenureError {
  constructor(facts: { resource: string; cause?: unknown }) {
    super(
      `The lease on "${facts.resource}" is in doubt: a renewal failed, or the wall clock moved forward, and a new renewal is ` +
        "not confirmed yet. " +
        'Await lease.confirmed() before acting, or acquire with whileInDoubt: "act".',
      { code: "LEASE_IN_DOUBT", retryable: true, resource: facts.resource, cause: facts.cause },
    );
  }
}

/** New work was offered to a lease that is being released. */
export class DrainingError extends TenureError {
  constructor(facts: { resource: string }) {
    super(
      `The lease on "${facts.resource}" is draining: it finishes work in flight and starts none.`,
      {
        code: "DRAINING",
        retryable: false,
        resource: facts.resource,
      },
    );
  }
}

/** A guard refused a token lower than one it has admitted or was advanced to. Nothing was written. */
export class StaleTokenError extends TenureError {
  readonly offered: bigint;
  readonly highest: bigint;

  constructor(facts: { resource: string; offered: bigint; highest: bigint }) {
    super(
      `Token ${facts.offered} for "${facts.resource}" is stale: ${facts.highest} has been seen. ` +
        "A newer holder has taken over; nothing was written.",
      { code: "STALE_TOKEN", retryable: false, resource: facts.resource },
    );
    this.offered = facts.offered;
    this.highest = facts.highest;
  }
}

/**
 * Why a token that came over a wire was not believed. `unsigned`: it carries no signature where one is asked for.
 * `malformed`: it is no signed token. `unknownKey`, `revokedKey`: the guard does not trust the key it names. `signature`:
 * it was not made with that key, or was changed since. `expired`: it was good once. `audience`: it was signed for another
 * service. `notHeld`: the store that grants leases has none that reaches this token; it has ended, or was never granted.
 */
export type UntrustedReason =
  | "unsigned"
  | "malformed"
  | "unknownKey"
  | "revokedKey"
  | "signature"
  | "expired"
  | "audience"
  | "notHeld";

/** A token that can be proved was asked for, and this one is not to be believed. Nothing was advanced or written. */
export class UntrustedTokenError extends TenureError {
  readonly reason: UntrustedReason;

  constructor(
    reason: UntrustedReason,
    message: string,
    facts: { resource?: string | undefined; cause?: unknown } = {},
  ) {
    super(message, { code: "UNTRUSTED_TOKEN", retryable: false, ...facts });
    this.reason = reason;
  }
}

/**
 * The store gave no answer. `applied: "no"` means that nothing changed there; `"unknown"` means that the request may
 * have been carried out, or may yet be.
 */
export class StoreUnavailableError extends TenureError {
  readonly applied: "no" | "unknown";

  constructor(
    message: string,
    facts: { applied: "no" | "unknown"; resource?: string | undefined; cause?: unknown },
  ) {
    super(message, {
      code: "STORE_UNAVAILABLE",
      retryable: true,
      resource: facts.resource,
      cause: facts.cause,
    });
    this.applied = facts.applied;
  }
}

/**
 * A guard gave no answer. `applied: "no"` means that nothing was written; `"unknown"` means that the write may have been
 * done, or may yet be: look at the resource. Advancing again does no harm in any case.
 */
export class GuardUnavailableError extends TenureError {
  readonly applied: "no" | "unknown";

  constructor(facts: {
    resource: string;
    detail: string;
    applied: "no" | "unknown";
    cause?: unknown;
  }) {
    super(`The guard of "${facts.resource}" cannot be used for now: ${facts.detail}.`, {
      code: "GUARD_UNAVAILABLE",
      retryable: true,
      resource: facts.resource,
      cause: facts.cause,
    });
    this.applied = facts.applied;
  }
}

/** The store went back in time: it offered a token that is not above one seen before. The grant was given back. */
export class TokenRegressionError extends TenureError {
  readonly offered: bigint;
  readonly highest: bigint;

  constructor(facts: { resource: string; offered: bigint; highest: bigint }) {
    super(
      `The store offered token ${facts.offered} for "${facts.resource}" after ${facts.highest}: it lost data ` +
        "(restored from a copy, failed over, or wiped). Bring it back to its newest state before anyone acts.",
      { code: "TOKEN_REGRESSION", retryable: false, resource: facts.resource },
    );
    this.offered = facts.offered;
    this.highest = facts.highest;
  }
}

/** The caller gave something that can never work. The message says what to change. */
export class InvalidArgumentError extends TenureError {
  constructor(message: string, facts: { resource?: string | undefined; cause?: unknown } = {}) {
    super(message, { code: "INVALID_ARGUMENT", retryable: false, ...facts });
  }
}

/** The store can never be used as it is: foreign or damaged file, missing client library, read-only disk. */
export class StoreUnusableError extends TenureError {
  constructor(message: string, facts: { cause?: unknown } = {}) {
    super(message, { code: "STORE_UNUSABLE", retryable: false, ...facts });
  }
}

/** The call came after `close()`, or `close()` ended it. */
export class ClosedError extends TenureError {
  constructor(what: string) {
    super(`${what} is closed. Connect again to go on.`, { code: "CLOSED", retryable: false });
  }
}
