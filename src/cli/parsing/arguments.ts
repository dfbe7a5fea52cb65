// Parses argv into a command and its options, using node:util parseArgs and the definitions.
// Unknown commands and options are rejected with the nearest match: if a mistyped option were
// ignored, a lease would be held with the wrong settings.

import { parseArgs } from "node:util";
import { findNearest } from "../../core/nearest.ts";
import { COMMANDS } from "../definitions/commands.ts";
import {
  type CommandDefinition,
  formatInvocation,
  listOptions,
  type OptionDefinition,
} from "../definitions/definition.ts";
import { UsageError } from "../errors.ts";
import type { Output } from "../output/output.ts";
import { parseDuration } from "./duration.ts";

export interface Parsed {
  readonly definition: CommandDefinition;
  readonly positionals: readonly string[];
  /** The words after `--`. */
  readonly command: readonly string[];
  readonly options: Options;
}

/** Runs the parsed command line and resolves with the exit code. */
export type Command = (parsed: Parsed, output: Output) => Promise<number>;

export class Options {
  readonly #values: ReadonlyMap<string, string | true>;

  constructor(values: ReadonlyMap<string, string | true>) {
    this.#values = values;
  }

  has(name: string): boolean {
    return this.#values.has(name);
  }

  text(name: string): string | undefined {
    const value = this.#values.get(name);
    return value === true ? undefined : value;
  }

  /** A duration in milliseconds. */
  duration(name: string): number | undefined {
    const text = this.text(name);
    return text === undefined ? undefined : parseDuration(text, `--${name}`);
  }

  count(name: string): number | undefined {
    const text = this.text(name);
    if (text === undefined) return undefined;
    const count = /^\d{1,9}$/.test(text) ? Number(text) : 0;
    if (count > 0) return count;
    throw new UsageError(`--${name} needs a whole number above 0, got ${JSON.stringify(text)}.`);
  }
}

export function isCommand(name: string | undefined): boolean {
  return COMMANDS.some((command) => command.name === name);
}

export function findCommand(name: string): CommandDefinition {
  const found = COMMANDS.find((command) => command.name === name);
  if (found !== undefined) return found;
  const names = COMMANDS.map((command) => command.name);
  throw new UsageError(
    `There is no command ${quoteForMessage(name)}.${didYouMean(name, names)} Commands: ${names.join(", ")}.`,
  );
}

/** `argv` does not include the name of the command. */
export function parseCommand(definition: CommandDefinition, argv: readonly string[]): Parsed {
  const end = argv.indexOf("--");
  const own = end === -1 ? argv : argv.slice(0, end);
  const command = end === -1 ? [] : argv.slice(end + 1);
  const known = listOptions(definition);
  const { tokens, positionals } = parseArgs({
    args: [...own],
    options: Object.fromEntries(
      known.map(({ name, value, short }) => [
        name,
        { type: value === undefined ? "boolean" : "string", ...(short && { short }) } as const,
      ]),
    ),
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const values = new Map<string, string | true>();
  for (const token of tokens) {
    if (token.kind !== "option") continue;
    const option = known.find(({ name }) => name === token.name);
    if (option === undefined) throw toUnknownOptionError(definition, token.rawName);
    values.set(option.name, checkValue(option, token.value));
  }
  const options = new Options(values);
  const parsed = { definition, positionals, command, options };
  if (!options.has("help")) checkShape(parsed, end !== -1);
  return parsed;
}

function checkValue(option: OptionDefinition, value: string | undefined): string | true {
  if (option.value === undefined) {
    if (value === undefined) return true;
    throw new UsageError(`--${option.name} is a switch and takes no value.`);
  }
  // `--ttl --json`: the value was forgotten.
  if (value === undefined || value === "" || value.startsWith("--")) {
    throw new UsageError(`--${option.name} needs a value: --${option.name} ${option.value}.`);
  }
  return value;
}

function toUnknownOptionError(definition: CommandDefinition, given: string): UsageError {
  const names = listOptions(definition).map(({ name }) => `--${name}`);
  return new UsageError(
    `\`${formatInvocation(definition)}\` has no option ${given}.${didYouMean(given, names)} Options: ${names.join(", ")}.`,
  );
}

function checkShape({ definition, positionals, command }: Parsed, separated: boolean): void {
  const { arguments: wanted, runs } = definition;
  const called = formatInvocation(definition);
  const required = wanted.filter((argument) => argument.required).length;
  const missing = wanted[positionals.length];
  if (positionals.length < required) {
    throw new UsageError(`\`${called}\` needs ${missing?.name}. See ${called} --help.`);
  }
  const extra = positionals[wanted.length];
  if (extra !== undefined) {
    const advice = runs === undefined ? "" : " The command to run comes after --.";
    throw new UsageError(
      `\`${called}\` does not accept the argument ${quoteForMessage(extra)}.${advice} See ${called} --help.`,
    );
  }
  for (const [index, { name: what, oneOf }] of wanted.entries()) {
    const given = positionals[index];
    if (given === undefined || oneOf === undefined || oneOf.includes(given)) continue;
    throw new UsageError(`${what} is one of ${oneOf.join(", ")}, got ${quoteForMessage(given)}.`);
  }
  if (runs === undefined && separated) {
    throw new UsageError(`\`${called}\` runs no command: leave out what follows --.`);
  }
  if (command.length === 0 && (runs === "must" || separated)) {
    throw new UsageError(
      `\`${called}\` needs the command to run after --, e.g. ${called} ${wanted[0]?.name} -- ./job.`,
    );
  }
}

/** A word that looks like a URL may contain a password, so messages do not repeat it. */
function quoteForMessage(word: string): string {
  return /@|:\/\//.test(word) ? "(not shown: it may contain a password)" : JSON.stringify(word);
}

function didYouMean(given: string, names: readonly string[]): string {
  const meant = findNearest(given, names);
  return meant === undefined ? "" : ` Did you mean ${meant}?`;
}
