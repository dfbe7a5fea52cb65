// Translates PostgreSQL's errors into Tenure's, as far as they concern the guard. Errors of the
// user's own statements stay unchanged, except those that admit() and the trigger of a protected
// table raise.

import {
  GuardUnavailableError,
  InvalidArgumentError,
  isTenureError,
  StaleTokenError,
} from "../../core/errors.ts";
import { redacted } from "../../core/redaction.ts";
import { parseToken } from "../../core/token.ts";
import { NOT_ADMITTED_STATE, STALE_STATE } from "./functions.ts";

/** The part of a guarded transaction in which an error occurred. */
export type Step = "opening" | "work" | "commit";

export interface Circumstance {
  readonly resource: string;
  readonly schema: string;
  readonly step: Step;
}

/** The properties that pg and postgres.js add to an error that the server sent. */
interface ServerError extends Error {
  readonly code?: string;
  readonly severity?: string;
  readonly detail?: string;
}

const LOCK_NOT_AVAILABLE = "55P03";

/**
 * For transactions of your own that call `tenure_guard.admit()` or write to a protected table:
 * `catch (error) { throw toTenureError(error); }`. Returns
 *
 * - StaleTokenError if a newer holder has taken over (SQLSTATE TN001),
 * - InvalidArgumentError if the transaction wrote to a protected table without calling admit()
 *   (TN002),
 * - GuardUnavailableError if admit() waited too long for transactions of an earlier term (55P03),
 * - any other error as it is.
 *
 * The error of an ORM or a query builder is translated, too, if the server's error is its `cause`.
 */
export function toTenureError(error: unknown): unknown {
  const found = findServerError(error);
  if (found === undefined) return error;
  const cause = redacted(found) as ServerError;
  switch (cause.code) {
    case STALE_STATE:
      return toStale(cause) ?? error;
    case NOT_ADMITTED_STATE:
      return toNotAdmitted(cause);
    case LOCK_NOT_AVAILABLE: {
      const resource = /^Token \d+ for "(.*)" was not admitted /s.exec(cause.message)?.[1];
      return resource === undefined ? error : toBlocked(cause, resource);
    }
    default:
      return error;
  }
}

const OWN_STATES: ReadonlySet<unknown> = new Set([
  STALE_STATE,
  NOT_ADMITTED_STATE,
  LOCK_NOT_AVAILABLE,
]);
/** An ORM may wrap the server's error a few times. */
const CAUSES_MAX = 5;

function findServerError(error: unknown): ServerError | undefined {
  let found = error;
  for (let depth = 0; depth <= CAUSES_MAX && found instanceof Error; depth += 1) {
    if (isTenureError(found)) return undefined;
    if (OWN_STATES.has((found as ServerError).code)) return found;
    found = found.cause;
  }
  return undefined;
}

/** The error that a guarded transaction, an advance or a reset throws to its caller. */
export function explainFailure(error: unknown, { resource, schema, step }: Circumstance): unknown {
  if (isTenureError(error) || !(error instanceof Error)) return error;
  const cause = redacted(error) as ServerError;
  if (cause.code === STALE_STATE) return toStale(cause, resource) ?? cause;
  if (cause.code === NOT_ADMITTED_STATE) return toNotAdmitted(cause);
  if (step === "work") return error;
  // The server rolls back a transaction that it rejects. An error of any other kind does not say
  // what became of a commit that was sent.
  const isRejected = cause.severity === "ERROR";
  if (step === "commit") return isRejected ? error : unavailable(resource, "unknown", cause);
  if (!isRejected) return unavailable(resource, "no", cause);
  switch (cause.code) {
    case "22023":
      return new InvalidArgumentError(cause.message, { resource, cause });
    case "42501":
      return new InvalidArgumentError(
        `PostgreSQL denied a permission: ${cause.message}. Let an owner run guardSql({ prefix: "${schema}", role }).`,
        { resource, cause },
      );
    case "3F000":
    case "42P01":
    case "42883":
      return new InvalidArgumentError(
        `The schema "${schema}" is missing or incomplete: ${cause.message}. Run guardSql({ prefix: "${schema}" }).`,
        { resource, cause },
      );
    case LOCK_NOT_AVAILABLE:
      return toBlocked(cause, resource);
    default:
      return error;
  }
}

/** Undefined if the error is not one of admit() or the trigger, although it has their SQLSTATE. */
function toStale(cause: ServerError, known?: string): StaleTokenError | undefined {
  const [, offered, highest] = /^offered (\d+) highest (\d+)$/.exec(cause.detail ?? "") ?? [];
  const resource = known ?? /^Token \d+ for "(.*)" is stale: /s.exec(cause.message)?.[1];
  if (offered === undefined || highest === undefined || resource === undefined) return undefined;
  return StaleTokenError.from({
    resource,
    offered: parseToken(offered),
    highest: parseToken(highest),
  });
}

function toNotAdmitted(cause: ServerError): InvalidArgumentError {
  return new InvalidArgumentError(cause.message, { cause });
}

function toBlocked(cause: ServerError, resource: string): GuardUnavailableError {
  return GuardUnavailableError.from({
    resource,
    applied: "no",
    detail: `transactions of an earlier term stayed open, and its token was not admitted in time. ${describeBlockers(cause)}`,
    cause,
  });
}

/** The transactions that admit() waited for. A guard of an earlier version does not report them. */
function describeBlockers({ detail }: ServerError): string {
  if (!detail?.startsWith("In the way: ")) {
    return "To see who is in the way, upgrade the guard with guardSql(), or look at pg_blocking_pids()";
  }
  return `${detail} To end such a transaction: SELECT pg_terminate_backend(pid). If it may take that long, raise \`waitMs\``;
}

function unavailable(
  resource: string,
  applied: "no" | "unknown",
  cause: Error,
): GuardUnavailableError {
  const when =
    applied === "no" ? "before anything was written" : "while the transaction was being committed";
  const detail = `the connection to PostgreSQL failed ${when} (${cause.message})`;
  return GuardUnavailableError.from({ resource, applied, detail, cause });
}
