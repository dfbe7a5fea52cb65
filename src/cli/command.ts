// The type of a command: it takes the parsed command line and resolves with the exit code.

import type { Output } from "./output/output.ts";
import type { Parsed } from "./parsing/arguments.ts";

export type Command = (parsed: Parsed, output: Output) => Promise<number>;
