// The errors that a command throws on purpose. failures.ts turns them into a message and an exit
// code.

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
