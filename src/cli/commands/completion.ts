// `tenure completion`: the scripts themselves are made in completion.ts.

import type { Command } from "../command.ts";
import { EXIT } from "../exit-codes.ts";
import { completionScript } from "../help/completion.ts";

export const completionCommand: Command = async ({ positionals }, output) => {
  const shell = positionals[0] ?? "";
  const script = completionScript(shell);
  output.answer(
    () => script.trimEnd().split("\n"),
    () => ({ shell, script }),
  );
  return EXIT.ok;
};
