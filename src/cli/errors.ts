// The errors that a command throws on purpose, and the message and exit code of any error that a
// command throws. Passwords in URLs are redacted.

import { type ErrorCode, isTenureError } from "../core/errors.ts";
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
    const { code, message } = error;
    return { code: EXIT_CODES[code] ?? EXIT.failed, message, facts: { code } };
  }
  const { stack, message: said } = redacted(error);
  const message = error instanceof Error ? (stack ?? said) : said;
  return { code: EXIT.failed, message, facts: { code: "UNEXPECTED" } };
}

const EXIT_CODES: Partial<Record<ErrorCode, number>> = {
  INVALID_ARGUMENT: EXIT.usage,
  TIMING: EXIT.timing,
  STORE_UNAVAILABLE: EXIT.unavailable,
  STORE_UNUSABLE: EXIT.unavailable,
  GUARD_UNAVAILABLE: EXIT.unavailable,
  TOKEN_REGRESSION: EXIT.unavailable,
  ACQUIRE_TIMEOUT: EXIT.busy,
  LEASE_LOST: EXIT.lost,
};
