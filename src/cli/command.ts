// What a command is to main.ts: the parsed words in, an exit code out.

import type { Output } from "./output/output.ts";
import type { Parsed } from "./parsing/arguments.ts";

export type Command = (parsed: Parsed, output: Output) => Promise<number>;
