// When a table was measured, on which machine, and with which versions of all that it names. Each table carries its own: a part
// that is measured again must not lend its date to those that were kept.

import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import type { EngineName } from "../test/servers/engine.ts";
import { needEngine } from "../test/servers/given.ts";
import { pinnedVersion } from "./peers/install.ts";
import { machine, type Section } from "./support.ts";

const ROOT = new URL("../", import.meta.url);

interface Part {
  readonly name: string;
  readonly words: RegExp;
  /** With the name in front, as its own world writes it. */
  version(): string | Promise<string>;
}

/** By the words that a table has for them, in its title, its rows or its pictures. */
const PARTS: readonly Part[] = [
  server("redis", /\bredis\b(?!-sem)/i),
  client("ioredis", /^Redis: |ioredis/m),
  client("redis", /node-redis/),
  server("postgres", /\bpostgres/i),
  client("pg", /^PostgreSQL: |\(pg\)/m),
  client("postgres", /postgres\.js/),
  server("etcd", /\betcd\b/i),
  server("zookeeper", /\bzookeeper\b/i),
  client("better-sqlite3", /\bsqlite\b|^one machine: /im),
  peer("redlock", /\bredlock\b(?!-)/),
  peer("redlock-universal", /\bredlock-universal\b/),
  peer("redis-semaphore", /\bredis-semaphore\b/),
  peer("@verrou/core", /\bverrou\b/),
  peer("etcd3", /\betcd3\b/),
  peer("proper-lockfile", /\bproper-lockfile\b/),
  {
    ...{ name: "flock", words: /\bflock\b/ },
    version: () => said("flock", ["--version"]).replace(/^flock from /, ""),
  },
];

/** With the time of now: called when its figures are there. */
export async function stamped(section: Section): Promise<Section> {
  const when = `on ${new Date().toISOString().slice(0, 16).replace("T", " ")} UTC`;
  return {
    ...section,
    measured: { when, versions: await versionsOf(section), machine: machine() },
  };
}

export async function versionsOf({ title, rows, series = [] }: Section): Promise<string> {
  const text = [title, ...rows.map(({ what }) => what), ...series.map(({ name }) => name)].join(
    "\n",
  );
  const named = PARTS.filter(({ words }) => words.test(text));
  return [own(), ...(await Promise.all(named.map(versionOf)))].join(", ");
}

/** What was measured for an hour is not lost because somebody does not tell its version. */
async function versionOf(part: Part): Promise<string> {
  try {
    return await part.version();
  } catch {
    return `${part.name} of an unknown version`;
  }
}

/** "Measured on 2026-11-16 14:02 UTC with ... .": the line above a table. */
export function origin({ measured }: Section): string {
  if (measured === undefined) return "When this was measured was not recorded.";
  const { when, versions = "versions that were not recorded", machine: where } = measured;
  return `Measured ${when} with ${versions}. ${where}.`;
}

/** The commit as well: between two releases much is measured. */
function own(): string {
  const { version } = manifestOf("package.json");
  try {
    const commit = said("git", ["rev-parse", "--short", "HEAD"]);
    const isChanged = said("git", ["status", "--porcelain", "--", "src"]) !== "";
    return `Tenure ${version} (${commit}${isChanged ? " and changes" : ""})`;
  } catch {
    return `Tenure ${version}`;
  }
}

function server(name: EngineName, words: RegExp): Part {
  return { name, words, version: async () => `${name} ${(await needEngine(name)).version}` };
}

function client(name: string, words: RegExp): Part {
  const version = (): string =>
    `${name}@${manifestOf(`node_modules/${name}/package.json`).version}`;
  return { name, words, version };
}

function peer(name: string, words: RegExp): Part {
  return { name, words, version: () => `${name}@${pinnedVersion(name)}` };
}

function manifestOf(path: string): { readonly version: string } {
  return JSON.parse(readFileSync(new URL(path, ROOT), "utf8"));
}

function said(program: string, args: readonly string[]): string {
  const stdio = ["ignore", "pipe", "ignore"] as const;
  return execFileSync(program, args, { cwd: ROOT, encoding: "utf8", stdio: [...stdio] }).trim();
}
