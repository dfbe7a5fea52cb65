#!/usr/bin/env node
// The `tenure` program. Each command is loaded when it is asked for, so that `tenure run` starts fast; what a command throws
// becomes one sentence and an exit code here.

import { findCommand, isCommand, type Parsed, parseCommand } from "./arguments.ts";
import type { Command } from "./command.ts";
import { EXIT } from "./exit-codes.ts";
import { failureOf } from "./failures.ts";
import { UsageError } from "./usage-error.ts";
import { Voice } from "./voice.ts";

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
  sim: async () => (await import("../../sim/cli/simulate.ts")).simCommand,
  demo: async () => (await import("./commands/demo.ts")).demoCommand,
  completion: async () => (await import("./commands/completion.ts")).completionCommand,
};

async function main(argv: readonly string[]): Promise<number> {
  const [name = "--help", ...rest] = argv;
  if (name === "--help" || name === "-h" || name === "help") return help(rest[0]);
  if (name === "--version" || name === "-V") return version();
  const parsed = parseCommand(findCommand(name), rest);
  if (parsed.options.has("help")) return help(name);
  return perform(parsed);
}

async function perform(parsed: Parsed): Promise<number> {
  const load = LOADERS[parsed.definition.name];
  if (load === undefined) throw new Error(`${parsed.definition.name} has no loader.`);
  const command = await load();
  return command(parsed, new Voice(parsed.options.has("json")));
}

async function help(name: string | undefined): Promise<number> {
  const { commandHelp, overallHelp } = await import("./help.ts");
  console.log(name === undefined ? overallHelp() : commandHelp(findCommand(name)));
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

/** Who reads our output may leave (`tenure ls | head`); who reads our remarks may, too, and the work goes on. */
function outliveReaders(): void {
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    process.exit(error.code === "EPIPE" ? EXIT.ok : EXIT.failed);
  });
  process.stderr.on("error", () => undefined);
}

const argv = process.argv.slice(2);
const ownWords = argv.slice(0, argv.includes("--") ? argv.indexOf("--") : argv.length);
outliveReaders();
try {
  process.exit(await main(argv));
} catch (error) {
  const voice = new Voice(ownWords.includes("--json"));
  const { code, message, facts } = failureOf(error);
  voice.fail(message, { ...facts, exitCode: code });
  if (error instanceof UsageError && !voice.json && !message.includes("See tenure "))
    console.error(`See tenure ${isCommand(ownWords[0]) ? `${ownWords[0]} ` : ""}--help.`);
  process.exit(code);
}
