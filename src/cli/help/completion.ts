// Completion scripts for three shells, made from the definitions. They complete commands and options, files after `--` and
// for values; resource names are not asked of the store, because a Tab must not wait for a network.

import { COMMANDS } from "../definitions/commands.ts";
import { type CommandDefinition, GLOBAL_OPTIONS } from "../definitions/definition.ts";

export function completionScript(shell: string): string {
  if (shell === "bash") return bash();
  if (shell === "zsh") return zsh();
  return fish();
}

const optionsOf = (command: CommandDefinition): CommandDefinition["options"] => [
  ...command.options,
  ...GLOBAL_OPTIONS,
];

const wordsOf = (command: CommandDefinition): string[] => [
  ...command.arguments.flatMap(({ oneOf }) => oneOf ?? []),
  ...optionsOf(command).map(({ name }) => `--${name}`),
];

function bash(): string {
  const cases = COMMANDS.map(
    (command) => `    ${command.name}) words="${wordsOf(command).join(" ")}" ;;`,
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

function zsh(): string {
  const commands = COMMANDS.map(({ name, summary }) => `    '${name}:${quoted(summary)}'`);
  const cases = COMMANDS.map((command) => {
    const options = optionsOf(command).map(
      ({ name, value, summary }) =>
        `        '--${name}[${bracketed(summary)}]${value === undefined ? "" : `:${value}:_files`}'`,
    );
    const oneOf = command.arguments.flatMap((argument) => argument.oneOf ?? []);
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

function fish(): string {
  const lines = COMMANDS.flatMap((command) => {
    const { name, summary } = command;
    const inside = `-n '__fish_seen_subcommand_from ${name}'`;
    const oneOf = command.arguments.flatMap((argument) => argument.oneOf ?? []);
    return [
      `complete -c tenure -f -n __fish_use_subcommand -a ${name} -d '${quoted(summary)}'`,
      ...optionsOf(command).map(
        (option) =>
          `complete -c tenure ${inside} -l ${option.name}${option.value === undefined ? "" : " -r"} -d '${quoted(option.summary)}'`,
      ),
      ...(oneOf.length === 0 ? [] : [`complete -c tenure -f ${inside} -a '${oneOf.join(" ")}'`]),
    ];
  });
  return `# tenure completion for fish\n${lines.join("\n")}\n`;
}

function quoted(text: string): string {
  return text.replaceAll("'", "’");
}

function bracketed(text: string): string {
  return quoted(text).replace(/[[\]:]/g, (character) => `\\${character}`);
}
