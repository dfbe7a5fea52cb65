// Generates the manual page tenure(1) from the definitions of the commands. The package contains
// the page itself, which a test keeps up to date, and not this generator.

import { COMMANDS } from "../../../src/cli/definitions/commands.ts";
import { type CommandDefinition, listOptions } from "../../../src/cli/definitions/definition.ts";
import { exitCodes } from "../../../src/cli/exit-codes.ts";
import { formatUsage } from "../../../src/cli/help/help.ts";

export function formatManualPage(): string {
  return [
    ".TH TENURE 1",
    ".SH NAME",
    escapeRoff("tenure - one process acts at a time"),
    ".SH SYNOPSIS",
    ...COMMANDS.flatMap((command) => [escapeRoff(formatUsage(command)), ".br"]),
    ".SH DESCRIPTION",
    escapeRoff(
      "Leases, locks and leader election on a store that you already run. A resource has at most one holder at a time. Every grant has a larger token than the one before, so that a guard can reject the late writes of a former holder.",
    ),
    ".PP",
    escapeRoff(
      "tenure --version, or -V, prints the version. tenure COMMAND --help prints the options of a command.",
    ),
    ".SH COMMANDS",
    ...COMMANDS.flatMap(formatCommand),
    ".SH EXIT STATUS",
    ...exitCodes().flatMap(({ code, meaning }) => [".TP", `.B ${code}`, escapeRoff(meaning)]),
    ".SH ENVIRONMENT",
    ...listEnvironment().flatMap(([name, text]) => [".TP", `.B ${name}`, escapeRoff(text)]),
    ".SH FILES",
    ".TP",
    ".I $XDG_STATE_HOME/tenure/tenure.db",
    escapeRoff(
      "The default store. It is ~/.local/state/tenure/tenure.db if XDG_STATE_HOME is not set.",
    ),
    "",
  ].join("\n");
}

function formatCommand(command: CommandDefinition): string[] {
  return [
    `.SS ${escapeRoff(formatUsage(command))}`,
    ...command.about.flatMap((paragraph) => [".PP", escapeRoff(paragraph)]),
    ...listOptions(command).flatMap(({ name, short, value, summary }) => [
      ".TP",
      `.B ${escapeRoff(`${short === undefined ? "" : `-${short}, `}--${name}${value === undefined ? "" : ` ${value}`}`)}`,
      escapeRoff(summary),
    ]),
    ".PP",
    "Examples:",
    ...command.examples.flatMap(({ line, does }) => [
      ".TP",
      `.B ${escapeRoff(line)}`,
      escapeRoff(does),
    ]),
  ];
}

function listEnvironment(): [string, string][] {
  return [
    [
      "TENURE_STORE",
      "The store if --store is not given. The command started by run or elect inherits it, unless --hide-store is given.",
    ],
    ["TENURE_DATABASE", "The database for guard if --database is not given."],
    ["NO_COLOR", "If set, the output has no colours."],
    [
      "TENURE_RESOURCE, TENURE_TOKEN",
      "Set for the command started by run or elect: the resource and the token of its lease.",
    ],
    [
      "TENURE_SAFE_UNTIL_MS",
      "Set for the same command: the deadline of the lease when the command started, in milliseconds of CLOCK_MONOTONIC on this host. Renewals extend the deadline but do not change the variable.",
    ],
  ];
}

/**
 * Escapes text for roff. A line must not begin with a dot or a quote; a bare minus becomes a
 * hyphen.
 */
function escapeRoff(text: string): string {
  const escaped = text.replaceAll("\\", "\\e").replaceAll("-", "\\-");
  return /^[.']/.test(escaped) ? `\\&${escaped}` : escaped;
}
