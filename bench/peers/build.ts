// Builds the workers of the peers in other languages, each once per version of its sources, into
// node_modules/.cache. A language whose tools are missing is skipped, and the reason is printed.

import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { findInPath } from "../../test/servers/engine.ts";

export type Language = "go" | "java";

/** The command that runs the worker, for each language that could be built. */
export type Commands = ReadonlyMap<Language, readonly string[]>;

interface Recipe {
  readonly tools: readonly string[];
  readonly peers: string;
  build(sources: string, folder: string): readonly string[];
  run(folder: string): readonly string[];
}

const CACHE = fileURLToPath(new URL("../../node_modules/.cache/tenure-peers/", import.meta.url));
const BUILD_MAX_MS = 600_000;

const recipes: Readonly<Record<Language, Recipe>> = {
  go: {
    tools: ["go"],
    peers: "redislock, etcd concurrency.Mutex",
    build: (sources, folder) => [
      ...["go", "build", "-C", sources, "-trimpath", "-ldflags", "-s -w"],
      ...["-o", join(folder, "worker"), "."],
    ],
    run: (folder) => [join(folder, "worker")],
  },
  java: {
    tools: ["mvn", "java", "javac"],
    peers: "Redisson fair lock, Curator InterProcessMutex",
    build: (sources, folder) => [
      ...["mvn", "-q", "-B", "-f", sources, "compile", "dependency:copy-dependencies"],
      `-DcacheFolder=${folder}`,
    ],
    run: (folder) => [
      ...["java", "-XX:+UseSerialGC", "-Xmx256m"],
      ...["-cp", `${join(folder, "classes")}:${join(folder, "dependency", "*")}`, "Worker"],
    ],
  },
};

/** Builds what is missing. Takes up to two minutes for each language the first time. */
export async function buildPeers(): Promise<Commands> {
  const commands = new Map<Language, readonly string[]>();
  for (const language of Object.keys(recipes) as Language[]) {
    const { peers } = recipes[language];
    try {
      commands.set(language, await buildOnce(language));
    } catch (error) {
      console.error(`  skipped: ${peers} (${language}): ${(error as Error).message}`);
    }
  }
  return commands;
}

/** "github.com/bsm/redislock@v0.9.4" for each library that the sources name. */
export function listForeignPinned(commands: Commands): string[] {
  const read = (path: string): string => readFileSync(join(toSources("."), path), "utf8");
  const go = /^\t(\S+) (v\S+)$/gm;
  const java = /<artifactId>([^<]+)<\/artifactId>\s+<version>(\d[^<]*\.[^<]*)<\/version>/g;
  const found = [
    ...(commands.has("go") ? read("go/go.mod").matchAll(go) : []),
    ...(commands.has("java") ? read("java/pom.xml").matchAll(java) : []),
  ];
  return found.map(([, name, version]) => `${name}@${version}`);
}

async function buildOnce(language: Language): Promise<readonly string[]> {
  const { tools, build, run } = recipes[language];
  const missing = tools.filter((tool) => findInPath(tool) === undefined);
  if (missing.length > 0) throw new Error(`${missing.join(" and ")} not found in PATH`);
  const sources = toSources(language);
  const folder = join(CACHE, `${language}-${digest(sources)}`);
  if (existsSync(folder)) return run(folder);
  console.error(`  building the worker of the ${language} peers (bench/peers/${language}) ...`);
  // Renamed when it is complete, so that an interrupted build is not used.
  const unfinished = `${folder}.${process.pid}`;
  mkdirSync(unfinished, { recursive: true });
  try {
    await runTool(build(sources, unfinished));
    renameSync(unfinished, folder);
  } finally {
    rmSync(unfinished, { recursive: true, force: true });
  }
  return run(folder);
}

function toSources(folder: string): string {
  return fileURLToPath(new URL(`./${folder}/`, import.meta.url));
}

function digest(sources: string): string {
  const hash = createHash("sha256");
  const files = readdirSync(sources, { recursive: true, encoding: "utf8", withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
  for (const file of files) hash.update(file.slice(sources.length)).update(readFileSync(file));
  return hash.digest("hex").slice(0, 16);
}

function runTool([file = "", ...args]: readonly string[]): Promise<void> {
  return new Promise((resolve, reject) => {
    const tool = spawn(file, args, { stdio: ["ignore", "pipe", "pipe"], timeout: BUILD_MAX_MS });
    let output = "";
    const keep = (chunk: Buffer): void => {
      output += chunk;
    };
    tool.stdout.on("data", keep);
    tool.stderr.on("data", keep);
    tool.once("error", reject);
    tool.once("close", (code) => {
      if (code === 0) return resolve();
      const lines = output.split("\n").filter((line) => line.trim() !== "");
      reject(new Error(`${file} ended with ${code}: ${lines.slice(0, 3).join(" ")}`));
    });
  });
}
