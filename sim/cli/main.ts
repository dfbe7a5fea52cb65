// The entry point of `npm run sim`: parses the command line and runs seeds or a scene.

import { EXIT } from "../../src/cli/exit-codes.ts";
import { formatCommandHelp } from "../../src/cli/help/help.ts";
import { Output } from "../../src/cli/output/output.ts";
import { parseCommand } from "../../src/cli/parsing/arguments.ts";
import { runProgram } from "../../src/cli/program.ts";
import { SIM } from "./definition.ts";
import { simCommand } from "./simulate.ts";

const argv = process.argv.slice(2);
await runProgram(
  async () => {
    const parsed = parseCommand(SIM, argv);
    if (parsed.options.has("help")) {
      console.log(formatCommandHelp(SIM));
      return EXIT.ok;
    }
    return simCommand(parsed, new Output(parsed.options.has("json")));
  },
  { json: argv.includes("--json"), help: "npm run sim -- --help" },
);
