// What a command is to main.ts: the parsed words in, an exit code out.

import type { Parsed } from "./arguments.ts";
import type { Voice } from "./voice.ts";

export type Command = (parsed: Parsed, voice: Voice) => Promise<number>;
