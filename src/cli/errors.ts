// The errors that a command throws on purpose, and the message and exit code of any error that a
// command throws. Passwords in URLs are redacted.

import { isTenureError, type TenureError } from "../core/errors.ts";
import { redacted, redactedText } from "../core/redaction.ts";
import { EXIT } from "./exit-codes.ts";

/** The command line is invalid. The message says what to change; the exit code is 2. */
export class UsageError extends Error {}

/** A command could not do what was asked, for a reason that it knows. */
export class CommandError extends Error {
  readonly exitCode: number;
  /** Details for --json. */
  readonly facts: Readonly<Record<string, unknown>>;

  constructor(message: string, exitCode: number, facts: Readonly<Record<string, unknown>>) {
    super(message);
    this.exitCode = exitCode;
    this.facts = facts;
  }
}

export interface Failure {
  readonly code: number;
  readonly message: string;
  readonly facts: Readonly<Record<string, unknown>>;
}

export function toFailure(error: unknown): Failure {
  if (error instanceof UsageError) {
    return { code: EXIT.usage, message: redactedText(error.message), facts: { code: "USAGE" } };
  }
  if (error instanceof CommandError) {
    return { code: error.exitCode, message: error.message, facts: error.facts };
  }
  if (isTenureError(error)) {
    return { code: toExitCode(error), message: error.message, facts: { code: error.code } };
  }
  const { stack, message: said } = redacted(error);
  const message = error instanceof Error ? (stack ?? said) : said;
  return { code: EXIT.failed, message, facts: { code: "UNEXPECTED" } };
}

function toExitCode(error: TenureError): number {
  switch (error.code) {
    case "INVALID_ARGUMENT":
      return EXIT.usage;
    case "TIMING":
      return EXIT.timing;
    case "STORE_UNAVAILABLE":
    case "STORE_UNUSABLE":
    case "GUARD_UNAVAILABLE":
    case "TOKEN_REGRESSION":
      return EXIT.unavailable;
    case "ACQUIRE_TIMEOUT":
      return EXIT.busy;
    case "LEASE_LOST":
      return EXIT.lost;
    default:
      return EXIT.failed;
  }
}
