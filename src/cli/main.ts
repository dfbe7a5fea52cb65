#!/usr/bin/env node
// The `tenure` program: finds the command and runs it. The module of a command is loaded only when
// that command is called, which keeps the start of `tenure run` fast.

import { EXIT } from "./exit-codes.ts";
import { Output } from "./output/output.ts";
import { type Command, findCommand, isCommand, parseCommand } from "./parsing/arguments.ts";
import { runProgram } from "./program.ts";

const LOADERS: Readonly<Record<string, () => Promise<Command>>> = {
  run: async () => (await import("./commands/run.ts")).runCommand,
  elect: async () => (await import("./commands/elect.ts")).electCommand,
  ls: async () => (await import("./commands/ls.ts")).lsCommand,
  show: async () => (await import("./commands/show.ts")).showCommand,
  watch: async () => (await import("./commands/watch.ts")).watchCommand,
  revoke: async () => (await import("./commands/revoke.ts")).revokeCommand,
  guard: async () => (await import("./commands/guard.ts")).guardCommand,
  plan: async () => (await import("./commands/plan.ts")).planCommand,
  doctor: async () => (await import("./commands/doctor.ts")).doctorCommand,
  completion: async () => (await import("./help/completion.ts")).completionCommand,
};

async function main(argv: readonly string[]): Promise<number> {
  const [name = "--help", ...rest] = argv;
  if (name === "--help" || name === "-h" || name === "help") return help(rest[0]);
  if (name === "--version" || name === "-V") return version();
  const parsed = parseCommand(findCommand(name), rest);
  if (parsed.options.has("help")) return help(name);
  const load = LOADERS[name];
  if (load === undefined) throw new Error(`${name} has no loader.`);
  const command = await load();
  return command(parsed, new Output(parsed.options.has("json")));
}

async function help(name: string | undefined): Promise<number> {
  const { formatCommandHelp, formatOverallHelp } = await import("./help/help.ts");
  console.log(name === undefined ? formatOverallHelp() : formatCommandHelp(findCommand(name)));
  return EXIT.ok;
}

async function version(): Promise<number> {
  const { readFileSync } = await import("node:fs");
  const manifest: unknown = JSON.parse(
    readFileSync(new URL("../../package.json", import.meta.url), "utf8"),
  );
  console.log((manifest as { version: string }).version);
  return EXIT.ok;
}

const argv = process.argv.slice(2);
const ownWords = argv.slice(0, argv.includes("--") ? argv.indexOf("--") : argv.length);
const topic = isCommand(ownWords[0]) ? `${ownWords[0]} ` : "";
await runProgram(() => main(argv), {
  json: ownWords.includes("--json"),
  help: `tenure ${topic}--help`,
});
