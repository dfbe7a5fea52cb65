// Runs a command-line program to its exit code. An error that the program throws becomes one sentence on stderr and the exit
// code that belongs to it. Shared by `tenure` and by the programs of this repository.

import { UsageError } from "./errors.ts";
import { EXIT } from "./exit-codes.ts";
import { toFailure } from "./failures.ts";
import { Output } from "./output/output.ts";

export interface ProgramOptions {
  /** Report errors as JSON. */
  readonly json: boolean;
  /** The command that explains the usage; named after a usage error. */
  readonly help: string;
}

/** Ends the process with the exit code that `main` resolves with, or with the code of the error that it throws. */
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
    if (error instanceof UsageError && !output.json && !message.includes(" --help"))
      console.error(`See ${options.help}.`);
    return process.exit(code);
  }
}

/** A reader of stdout may exit early (`tenure ls | head`), and so may a reader of stderr, which must not end the work. */
function surviveClosedPipes(): void {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    process.exit(error.code === "EPIPE" ? EXIT.ok : EXIT.failed);
  });
  process.stderr.on("error", () => undefined);
}
