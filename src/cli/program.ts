// Runs a command-line program and exits the process with its code. An error that the program throws
// becomes a message on stderr and an exit code. Used by `tenure` and by the programs of this
// repository.

import { toFailure, UsageError } from "./errors.ts";
import { EXIT } from "./exit-codes.ts";
import { Output } from "./output/output.ts";

export interface ProgramOptions {
  /** Report errors as JSON. */
  readonly json: boolean;
  /** The command that prints help. Messages about usage errors refer to it. */
  readonly help: string;
}

/** Exits with the code that `main` resolves with, or with the code of the error that it throws. */
export async function runProgram(
  main: () => Promise<number>,
  options: ProgramOptions,
): Promise<never> {
  surviveClosedPipes();
  try {
    return process.exit(await main());
  } catch (error) {
    const output = new Output(options.json);
    const { code, message, facts } = toFailure(error);
    output.fail(message, { ...facts, exitCode: code });
    // Some messages already refer to the help.
    const refersToHelp = /See .* --help\.$/.test(message);
    if (error instanceof UsageError && !output.json && !refersToHelp)
      console.error(`See ${options.help}.`);
    return process.exit(code);
  }
}

/**
 * Survives EPIPE. A reader of stdout may exit early (`tenure ls | head`), which ends the program.
 * If the reader of stderr exits, the program continues, because its work does not depend on its
 * messages.
 */
function surviveClosedPipes(): void {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    process.exit(error.code === "EPIPE" ? EXIT.ok : EXIT.failed);
  });
  process.stderr.on("error", () => undefined);
}
