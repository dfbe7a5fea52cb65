// The manual page tenure(1), made from the definitions. man/tenure.1 is this text; a test keeps the two the same.

import { COMMANDS } from "../definitions/commands.ts";
import { type CommandDefinition, GLOBAL_OPTIONS } from "../definitions/definition.ts";
import { exitCodes } from "../exit-codes.ts";
import { formatUsage } from "./help.ts";

export function manualPage(): string {
  return [
    ".TH TENURE 1",
    ".SH NAME",
    roff("tenure - one process acts at a time"),
    ".SH SYNOPSIS",
    ...COMMANDS.flatMap((command) => [roff(formatUsage(command)), ".br"]),
    ".SH DESCRIPTION",
    roff(
      "Leases, locks and leader election on a store that you already run. Exactly one holder at a time, each with a larger token than the one before, so that the late acts of a former holder can be refused.",
    ),
    ".PP",
    roff(
      "tenure --version, or -V, prints the version; tenure COMMAND --help the options of a command.",
    ),
    ".SH COMMANDS",
    ...COMMANDS.flatMap(commandPart),
    ".SH EXIT STATUS",
    ...exitCodes().flatMap(({ code, meaning }) => [".TP", `.B ${code}`, roff(meaning)]),
    ".SH ENVIRONMENT",
    ...environment().flatMap(([name, text]) => [".TP", `.B ${name}`, roff(text)]),
    ".SH FILES",
    ".TP",
    ".I $XDG_STATE_HOME/tenure/tenure.db",
    roff(
      "The store when none is named; ~/.local/state/tenure/tenure.db when XDG_STATE_HOME is not set.",
    ),
    "",
  ].join("\n");
}

function commandPart(command: CommandDefinition): string[] {
  return [
    `.SS ${roff(formatUsage(command))}`,
    ...command.about.flatMap((paragraph) => [".PP", roff(paragraph)]),
    ...[...command.options, ...GLOBAL_OPTIONS].flatMap(({ name, short, value, summary }) => [
      ".TP",
      `.B ${roff(`${short === undefined ? "" : `-${short}, `}--${name}${value === undefined ? "" : ` ${value}`}`)}`,
      roff(summary),
    ]),
    ".PP",
    "Examples:",
    ...command.examples.flatMap(({ line, does }) => [".TP", `.B ${roff(line)}`, roff(does)]),
  ];
}

function environment(): [string, string][] {
  return [
    [
      "TENURE_STORE",
      "The store when --store is not given. The command that run or elect runs inherits it, unless --hide-store is given.",
    ],
    ["TENURE_DATABASE", "The database of guard when --database is not given."],
    ["NO_COLOR", "When set, no colours."],
    ["TENURE_RESOURCE, TENURE_TOKEN", "For the command that run or elect runs: what it holds."],
    [
      "TENURE_SAFE_UNTIL_MS",
      "For the same: until when the lease was certain as the command started, in milliseconds of CLOCK_MONOTONIC on this host. Renewals move the deadline on; they do not reach the environment.",
    ],
  ];
}

/** A line may not begin with a dot or a quote, and a bare minus would become a hyphen that cannot be copied. */
function roff(text: string): string {
  const escaped = text.replaceAll("\\", "\\e").replaceAll("-", "\\-");
  return /^[.']/.test(escaped) ? `\\&${escaped}` : escaped;
}
