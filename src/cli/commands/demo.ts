// `tenure demo`: what `npm start` runs. The demo is a program of its own and ends the process itself.

import type { Command } from "../command.ts";
import { EXIT } from "../exit-codes.ts";

export const demoCommand: Command = async () => {
  await import("../../../examples/demo/main.ts");
  return EXIT.ok;
};
