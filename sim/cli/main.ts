// The entry point of `npm run sim`: parses the command line and runs seeds or a scene.

import { parseCommand } from "../../src/cli/arguments.ts";
import { EXIT } from "../../src/cli/exit-codes.ts";
import { commandHelp } from "../../src/cli/help.ts";
import { runProgram } from "../../src/cli/program.ts";
import { Voice } from "../../src/cli/voice.ts";
import { SIM } from "./definition.ts";
import { simCommand } from "./simulate.ts";

const argv = process.argv.slice(2);
await runProgram(
  async () => {
    const parsed = parseCommand(SIM, argv);
    if (parsed.options.has("help")) {
      console.log(commandHelp(SIM));
      return EXIT.ok;
    }
    return simCommand(parsed, new Voice(parsed.options.has("json")));
  },
  { json: argv.includes("--json"), help: "npm run sim -- --help" },
);
