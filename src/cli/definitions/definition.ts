// The shape of a command definition. Parsing, help, shell completion and the manual page are all
// generated from definitions, so a command cannot accept an option that its help does not list.

import type { ExitName } from "../exit-codes.ts";

export interface OptionDefinition {
  readonly name: string;
  readonly short?: string;
  /** The name of the value in help texts. Absent for a switch. */
  readonly value?: string;
  readonly summary: string;
}

interface ArgumentDefinition {
  readonly name: string;
  readonly required: boolean;
  /** The allowed values, if there are only a few. */
  readonly oneOf?: readonly string[];
}

export interface CommandDefinition {
  readonly name: string;
  /** How messages and help refer to the command. @default `tenure NAME` */
  readonly calledAs?: string;
  readonly summary: string;
  /** Paragraphs for --help and the manual page. */
  readonly about: readonly string[];
  readonly arguments: readonly ArgumentDefinition[];
  /** Whether `-- command arguments` may follow, or must. Absent if they must not. */
  readonly runs?: "may" | "must";
  readonly options: readonly OptionDefinition[];
  readonly examples: readonly { readonly line: string; readonly does: string }[];
  /** Exit codes besides `ok`, `usage` and `failed`, which every command can end with. */
  readonly exits: readonly ExitName[];
}

/** What a user types to run the command. */
export function formatInvocation(definition: CommandDefinition): string {
  return definition.calledAs ?? `tenure ${definition.name}`;
}

export const GLOBAL_OPTIONS: readonly OptionDefinition[] = [
  { name: "json", summary: "Print JSON, for programs." },
  { name: "help", short: "h", summary: "Show this help." },
];

/** All options of a command, in the order of its help. */
export function listOptions({ options }: CommandDefinition): readonly OptionDefinition[] {
  return [...options, ...GLOBAL_OPTIONS];
}
