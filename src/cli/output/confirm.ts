// A question on the terminal before something is ended or removed. Where nobody can be asked, the caller has to say --yes.

import { createInterface } from "node:readline";
import { UsageError } from "../errors.ts";
import type { Options } from "../parsing/arguments.ts";
import type { Output } from "./output.ts";
import { printable } from "./text.ts";

/** Called before anything is opened: a program that forgot --yes learns it at once. `what` is a verb: "revoke". */
export function checkCanConfirm(options: Options, output: Output, what: string): void {
  const asks = process.stdin.isTTY === true && process.stdout.isTTY === true && !output.json;
  if (options.has("yes") || asks) return;
  throw new UsageError(`There is nobody to ask: give --yes to ${what} without a question.`);
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
