// Asks for confirmation on the terminal before a command ends or removes something. Without a
// terminal the user has to pass --yes.

import { createInterface } from "node:readline";
import { UsageError } from "../errors.ts";
import type { Options } from "../parsing/arguments.ts";
import type { Output } from "./output.ts";
import { printable } from "./text.ts";

/**
 * Throws if there is no terminal and no --yes. Called before a store is opened, so that a script
 * without --yes fails immediately. `what` is a verb, such as "revoke".
 */
export function checkCanConfirm(options: Options, output: Output, what: string): void {
  const canAsk = process.stdin.isTTY === true && process.stdout.isTTY === true && !output.json;
  if (options.has("yes") || canAsk) return;
  throw new UsageError(`Confirmation needs a terminal. Pass --yes to ${what} without being asked.`);
}

export function confirm(question: string): Promise<boolean> {
  const reader = createInterface({ input: process.stdin, output: process.stdout });
  return new Promise((resolve) => {
    reader.once("close", () => resolve(false));
    reader.question(`${printable(question)} [y/N] `, (answer) => {
      resolve(/^y(es)?$/i.test(answer.trim()));
      reader.close();
    });
  });
}
