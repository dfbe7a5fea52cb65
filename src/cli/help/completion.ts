// Generates completion scripts for three shells from the definitions. They complete commands,
// options, and files for values and after `--`. They do not complete resource names, because
// pressing Tab must not wait for a store.

import { COMMANDS } from "../definitions/commands.ts";
import { type CommandDefinition, listOptions } from "../definitions/definition.ts";
import { EXIT } from "../exit-codes.ts";
import type { Command } from "../parsing/arguments.ts";

export const completionCommand: Command = async ({ positionals }, output) => {
  const shell = positionals[0] ?? "";
  const script = formatCompletionScript(shell);
  output.answer(
    () => script.trimEnd().split("\n"),
    () => ({ shell, script }),
  );
  return EXIT.ok;
};

export function formatCompletionScript(shell: string): string {
  if (shell === "bash") return formatBash();
  if (shell === "zsh") return formatZsh();
  return formatFish();
}

const listArguments = (command: CommandDefinition): string[] =>
  command.arguments.flatMap(({ oneOf }) => oneOf ?? []);

const listWords = (command: CommandDefinition): string[] => [
  ...listArguments(command),
  ...listOptions(command).map(({ name }) => `--${name}`),
];

function formatBash(): string {
  const cases = COMMANDS.map(
    (command) => `    ${command.name}) words="${listWords(command).join(" ")}" ;;`,
  );
  return `# tenure completion for bash
_tenure() {
  local current="\${COMP_WORDS[COMP_CWORD]}" words="" word
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "${COMMANDS.map(({ name }) => name).join(" ")} --help --version" -- "$current"))
    return
  fi
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    if [ "$word" = "--" ]; then
      COMPREPLY=($(compgen -c -f -- "$current"))
      return
    fi
  done
  case "\${COMP_WORDS[1]}" in
${cases.join("\n")}
  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _tenure tenure
`;
}

function formatZsh(): string {
  const commands = COMMANDS.map(({ name, summary }) => `    '${name}:${escapeQuotes(summary)}'`);
  const cases = COMMANDS.map((command) => {
    const options = listOptions(command).map(
      ({ name, value, summary }) =>
        `        '--${name}[${escapeBrackets(summary)}]${value === undefined ? "" : `:${value}:_files`}'`,
    );
    const oneOf = listArguments(command);
    const words = oneOf.length === 0 ? [] : [`        '1:word:(${oneOf.join(" ")})'`];
    return `    ${command.name})\n      _arguments \\\n${[...options, ...words].join(" \\\n")}\n      ;;`;
  });
  return `#compdef tenure
# tenure completion for zsh
_tenure() {
  local -a commands
  commands=(
${commands.join("\n")}
  )
  if (( CURRENT == 2 )); then
    _describe 'command' commands
    return
  fi
  local separator=\${words[(i)--]}
  if (( separator < CURRENT )); then
    shift separator words
    (( CURRENT -= separator ))
    _normal
    return
  fi
  local name=$words[2]
  shift words
  (( CURRENT -= 1 ))
  case $name in
${cases.join("\n")}
  esac
}
compdef _tenure tenure
`;
}

function formatFish(): string {
  const lines = COMMANDS.flatMap((command) => {
    const { name, summary } = command;
    const condition = `-n '__fish_seen_subcommand_from ${name}'`;
    const oneOf = listArguments(command);
    return [
      `complete -c tenure -f -n __fish_use_subcommand -a ${name} -d '${escapeQuotes(summary)}'`,
      ...listOptions(command).map(
        (option) =>
          `complete -c tenure ${condition} -l ${option.name}${option.value === undefined ? "" : " -r"} -d '${escapeQuotes(option.summary)}'`,
      ),
      ...(oneOf.length === 0 ? [] : [`complete -c tenure -f ${condition} -a '${oneOf.join(" ")}'`]),
    ];
  });
  return `# tenure completion for fish\n${lines.join("\n")}\n`;
}

function escapeQuotes(text: string): string {
  return text.replaceAll("'", "’");
}

function escapeBrackets(text: string): string {
  return escapeQuotes(text).replace(/[[\]:]/g, (character) => `\\${character}`);
}
