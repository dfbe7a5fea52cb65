// A question on the terminal before something is ended or removed. Where nobody can be asked, the caller has to say --yes.

import { createInterface } from "node:readline";
import type { Options } from "./arguments.ts";
import { printable } from "./text.ts";
import { UsageError } from "./usage-error.ts";
import type { Voice } from "./voice.ts";

/** Called before anything is opened: a program that forgot --yes learns it at once. `what` is a verb: "revoke". */
export function checkCanAsk(options: Options, voice: Voice, what: string): void {
  const asks = process.stdin.isTTY === true && process.stdout.isTTY === true && !voice.json;
  if (options.has("yes") || asks) return;
  throw new UsageError(`There is nobody to ask: give --yes to ${what} without a question.`);
}

export function agrees(question: string): Promise<boolean> {
  const reader = createInterface({ input: process.stdin, output: process.stdout });
  return new Promise((resolve) => {
    reader.once("close", () => resolve(false));
    reader.question(`${printable(question)} [y/N] `, (answer) => {
      resolve(/^y(es)?$/i.test(answer.trim()));
      reader.close();
    });
  });
}
