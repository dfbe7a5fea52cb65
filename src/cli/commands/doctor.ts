// stub
import type { Command } from "../command.ts";
export const doctorCommand: Command = async () => 0;
