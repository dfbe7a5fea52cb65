// Checks that the command exists before a lease is acquired. A mistyped command would otherwise
// take the lease from other processes for nothing.

import { accessSync, constants, statSync } from "node:fs";
import { delimiter, join } from "node:path";
import { CommandError, UsageError } from "../errors.ts";
import { EXIT } from "../exit-codes.ts";

export function checkExecutable(command: readonly string[]): void {
  const [name = ""] = command;
  // The shell that starts the command would parse such a name as an option of its own.
  if (name === "" || name.startsWith("-")) {
    throw new UsageError(
      `The name of the command to run must not be empty or begin with "-", got ${JSON.stringify(name)}.`,
    );
  }
  const paths = name.includes("/")
    ? [name]
    : (process.env.PATH ?? "").split(delimiter).map((folder) => join(folder, name));
  const files = paths.filter(isFile);
  if (files.some(canExecute)) return;
  const facts = { code: "COMMAND", command: name };
  if (files.length > 0)
    throw new CommandError(`${name} is not executable.`, EXIT.notExecutable, facts);
  throw new CommandError(`The command ${name} was not found.`, EXIT.notFound, facts);
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
}

function canExecute(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
