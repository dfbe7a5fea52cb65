// Looks for the command before any lease is taken: a typing error must not cost the others a turn.

import { accessSync, constants, statSync } from "node:fs";
import { delimiter, join } from "node:path";
import { CommandError, UsageError } from "../errors.ts";
import { EXIT } from "../exit-codes.ts";

export function checkExecutable(command: readonly string[]): void {
  const [name = ""] = command;
  // The shell that starts it would take it for an option of its own.
  if (name === "" || name.startsWith("-")) {
    throw new UsageError(`The command to run cannot be called ${JSON.stringify(name)}.`);
  }
  const places = name.includes("/")
    ? [name]
    : (process.env.PATH ?? "").split(delimiter).map((folder) => join(folder, name));
  const files = places.filter(isFile);
  if (files.some(mayExecute)) return;
  const facts = { code: "COMMAND", command: name };
  if (files.length > 0)
    throw new CommandError(`${name} is not executable.`, EXIT.notExecutable, facts);
  throw new CommandError(`There is no command ${name}.`, EXIT.notFound, facts);
}

function isFile(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isFile() ?? false;
}

function mayExecute(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}
