// PostgreSQL's errors in our words, as far as they are about the guard. What the user's own statements throw comes out
// unchanged, except a refusal by the trigger of a protected table, which is ours.

import {
  GuardUnavailableError,
  InvalidArgumentError,
  isTenureError,
  StaleTokenError,
} from "../../core/errors.ts";
import { redacted } from "../../core/redaction.ts";
import { parseToken } from "../../core/token.ts";
import { NOT_ADMITTED_STATE, STALE_STATE } from "./functions.ts";

/** How far the transaction had come. */
export type Step = "opening" | "work" | "commit";

export interface Circumstance {
  readonly resource: string;
  readonly schema: string;
  readonly step: Step;
}

/** What both libraries give an error that the server sent. */
interface ServerError extends Error {
  readonly code?: string;
  readonly severity?: string;
  readonly detail?: string;
}

export function failure(error: unknown, { resource, schema, step }: Circumstance): unknown {
  if (isTenureError(error) || !(error instanceof Error)) return error;
  const cause = redacted(error) as ServerError;
  if (cause.code === STALE_STATE) return stale(cause, resource);
  if (cause.code === NOT_ADMITTED_STATE) return new InvalidArgumentError(cause.message, { cause });
  if (step === "work") return error;
  // The server undoes what it refuses. An error of any other kind says nothing about a commit that had left.
  const refused = cause.severity === "ERROR";
  if (step === "commit") return refused ? error : unavailable(resource, "unknown", cause);
  if (!refused) return unavailable(resource, "no", cause);
  switch (cause.code) {
    case "22023":
      return new InvalidArgumentError(cause.message, { resource, cause });
    case "42501":
      return new InvalidArgumentError(
        `PostgreSQL denied a permission: ${cause.message}. Let an owner run guardSql({ schema: "${schema}", role }).`,
        { resource, cause },
      );
    case "3F000":
    case "42P01":
    case "42883":
      return new InvalidArgumentError(
        `The schema "${schema}" is missing or incomplete: ${cause.message}. Run guardSql({ schema: "${schema}" }).`,
        { resource, cause },
      );
    case "55P03":
      return GuardUnavailableError.from({
        resource,
        applied: "no",
        detail: `transactions of an earlier term stayed open, and its token was not admitted in time. ${inTheWay(cause)}`,
        cause,
      });
    default:
      return error;
  }
}

/** What admit() found out about those it waited for. A guard of an earlier version does not tell. */
function inTheWay({ detail }: ServerError): string {
  if (!detail?.startsWith("In the way: ")) {
    return "To see who is in the way, upgrade the guard with guardSql(), or look at pg_blocking_pids()";
  }
  return `${detail} To end such a transaction: SELECT pg_terminate_backend(pid). If it may take that long, raise \`waitLimitMs\``;
}

function stale(cause: ServerError, resource: string): Error {
  const [, offered, highest] = /^offered (\d+) highest (\d+)$/.exec(cause.detail ?? "") ?? [];
  // Somebody else's error under our number: better shown as it is than in words that do not fit.
  if (offered === undefined || highest === undefined) return cause;
  return StaleTokenError.from({
    resource,
    offered: parseToken(offered),
    highest: parseToken(highest),
  });
}

function unavailable(
  resource: string,
  applied: "no" | "unknown",
  cause: Error,
): GuardUnavailableError {
  const detail =
    applied === "no"
      ? `the connection to PostgreSQL failed before anything was written (${cause.message})`
      : `the connection to PostgreSQL failed while the transaction was being committed (${cause.message})`;
  return GuardUnavailableError.from({ resource, applied, detail, cause });
}
