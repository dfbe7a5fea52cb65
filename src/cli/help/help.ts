// Generates the help texts from the definitions.

import { COMMANDS } from "../definitions/commands.ts";
import {
  type CommandDefinition,
  formatInvocation,
  listOptions,
} from "../definitions/definition.ts";
import { EXIT, type ExitName, exitCodes, MEANINGS } from "../exit-codes.ts";
import { fold } from "../output/text.ts";

const WIDTH = 96;

export function formatUsage(definition: CommandDefinition): string {
  const parts = definition.arguments.map(({ name, required }) => (required ? name : `[${name}]`));
  if (definition.options.length > 0) parts.push("[options]");
  if (definition.runs === "must") parts.push("-- COMMAND [ARGUMENT...]");
  if (definition.runs === "may") parts.push("[-- COMMAND [ARGUMENT...]]");
  return [formatInvocation(definition), ...parts].join(" ");
}

export function formatCommandHelp(definition: CommandDefinition): string {
  const options = listOptions(definition).map(
    ({ name, short, value, summary }): [string, string] => [
      `${short === undefined ? "    " : `-${short}, `}--${name}${value === undefined ? "" : ` ${value}`}`,
      summary,
    ],
  );
  const examples = definition.examples.flatMap(({ line, does }) => [`  ${line}`, `      ${does}`]);
  return [
    `Usage: ${formatUsage(definition)}`,
    "",
    ...definition.about.flatMap((paragraph) => [...fold(paragraph, WIDTH), ""]),
    "Options:",
    ...formatRows(options),
    "",
    "Examples:",
    ...examples,
    "",
    "Exit codes:",
    ...formatRows(listExitNames(definition).map((name) => [formatExitCode(name), MEANINGS[name]])),
  ].join("\n");
}

export function formatOverallHelp(): string {
  return [
    "Usage: tenure COMMAND [options]",
    "",
    "Leases, locks and leader election. One process acts at a time, and late writes of a former holder\nare rejected.",
    "",
    "Commands:",
    ...formatRows(COMMANDS.map(({ name, summary }) => [name, summary])),
    "",
    "Examples:",
    ...COMMANDS.slice(0, 4).map(({ examples }) => `  ${examples[0]?.line}`),
    "",
    "Exit codes:",
    ...formatRows(exitCodes().map(({ code, meaning }) => [String(code), meaning])),
    "",
    "tenure COMMAND --help explains a command. tenure --version (-V) prints the version.",
    "Durations are written 500ms, 10s, 2m, 1h.",
  ].join("\n");
}

/** The codes that a command can exit with, smallest first. */
export function listExitNames(definition: CommandDefinition): ExitName[] {
  const names: ExitName[] = ["ok", "usage", "failed", ...definition.exits];
  return names.sort((a, b) => EXIT[a] - EXIT[b]);
}

function formatExitCode(name: ExitName): string {
  return name === "signal" ? "128+n" : String(EXIT[name]);
}

function formatRows(pairs: readonly (readonly [string, string])[]): string[] {
  const left = Math.max(...pairs.map(([name]) => name.length)) + 2;
  return pairs.flatMap(([name, text]) => {
    const lines = fold(text, WIDTH - left - 2);
    return lines.map((line, index) => `  ${(index === 0 ? name : "").padEnd(left)}${line}`);
  });
}
