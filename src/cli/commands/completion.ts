// `tenure completion` prints the script that help/completion.ts generates.

import type { Command } from "../command.ts";
import { EXIT } from "../exit-codes.ts";
import { formatCompletionScript } from "../help/completion.ts";

export const completionCommand: Command = async ({ positionals }, output) => {
  const shell = positionals[0] ?? "";
  const script = formatCompletionScript(shell);
  output.answer(
    () => script.trimEnd().split("\n"),
    () => ({ shell, script }),
  );
  return EXIT.ok;
};
