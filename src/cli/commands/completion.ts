// `tenure completion`: the scripts themselves are made in completion.ts.

import type { Command } from "../command.ts";
import { completionScript } from "../completion.ts";
import { EXIT } from "../exit-codes.ts";

export const completionCommand: Command = async ({ positionals }, voice) => {
  const shell = positionals[0] ?? "";
  const script = completionScript(shell);
  voice.answer(
    () => script.trimEnd().split("\n"),
    () => ({ shell, script }),
  );
  return EXIT.ok;
};
