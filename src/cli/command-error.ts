// A foreseen end of a command that is not what was asked for: a sentence, an exit code, and facts for --json.

export class CommandError extends Error {
  readonly exitCode: number;
  readonly facts: Readonly<Record<string, unknown>>;

  constructor(message: string, exitCode: number, facts: Readonly<Record<string, unknown>>) {
    super(message);
    this.exitCode = exitCode;
    this.facts = facts;
  }
}
