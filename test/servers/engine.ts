// Finds the engines that are installed on this machine: the programs of each, in the folders of
// Debian's packages or in PATH. This file changes nothing; install.ts installs missing engines.
import { execFile } from "node:child_process";
import { accessSync, constants, existsSync, readdirSync } from "node:fs";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";

/** pgbouncer and openssl are tools, not engines; the tests of poolers and of TLS need them. */
export type EngineName = "redis" | "etcd" | "postgres" | "zookeeper" | "pgbouncer" | "openssl";

export interface Engine {
  readonly name: EngineName;
  readonly version: string;
  /**
   * Paths by role: `server`; for postgres also `initdb`, `basebackup`, `ctl` and `psql`; for
   * zookeeper `java`, `jar`, `jute` and `log`.
   */
  readonly paths: Readonly<Record<string, string>>;
}

/**
 * The reason why a test cannot run on this machine. useServer() skips the test; anywhere else it is
 * an ordinary error.
 */
export class CannotRunError extends Error {}

export class MissingEngineError extends CannotRunError {
  readonly reason: string;

  constructor(name: EngineName, reason: string) {
    super(`missing engine ${name}: ${reason}`);
    this.reason = reason;
  }
}

/** The Debian package of each engine. */
export const debianPackages: Readonly<Record<EngineName, string>> = {
  redis: "redis-server",
  etcd: "etcd-server",
  postgres: "postgresql",
  zookeeper: "zookeeper",
  pgbouncer: "pgbouncer",
  openssl: "openssl",
};

/** The folder into which scripts/test-on-engines.mjs unpacks packages without installing them. */
const ROOT = process.env.TENURE_TEST_ROOT ?? "/";
const POSTGRES_HOMES = join(ROOT, "usr/lib/postgresql");
const JARS = join(ROOT, "usr/share/java");

/** The engine, or undefined if it is not installed. */
export async function findEngine(name: EngineName): Promise<Engine | undefined> {
  switch (name) {
    case "redis":
      return fromProgram(name, findInPath("redis-server") ?? findInPath("valkey-server"));
    case "etcd":
      return fromProgram(name, findInPath("etcd"));
    case "pgbouncer":
      return fromProgram(name, findInPath("pgbouncer"));
    case "openssl":
      return fromProgram(name, findInPath("openssl"), "version");
    case "postgres":
      return findPostgres();
    case "zookeeper":
      return findZooKeeper();
  }
}

async function findPostgres(): Promise<Engine | undefined> {
  // Debian keeps the server's programs out of PATH, one folder per major version.
  const majors = existsSync(POSTGRES_HOMES) ? readdirSync(POSTGRES_HOMES).map(Number) : [];
  const newest = majors.filter((major) => major >= 13).sort((a, b) => b - a);
  const folders = newest.map((major) => join(POSTGRES_HOMES, String(major), "bin"));
  const find = (program: string): string | undefined =>
    findInFolders(program, folders) ?? findInPath(program);
  const server = find("postgres");
  const paths = { initdb: find("initdb"), basebackup: find("pg_basebackup"), ctl: find("pg_ctl") };
  return fromProgram("postgres", server, "--version", { ...paths, psql: find("psql") });
}

async function findZooKeeper(): Promise<Engine | undefined> {
  const java = findInPath("java");
  const jar = join(JARS, "zookeeper.jar");
  if (java === undefined || !existsSync(jar)) return undefined;
  // The version is in the file name of a second copy of the jar. Asking the JVM takes half a
  // second.
  const versions = readdirSync(JARS).map((name) => /^zookeeper-(\d[\d.]*)\.jar$/.exec(name)?.[1]);
  const version = versions.find((found) => found !== undefined) ?? "unknown";
  // The jar refers to jute by an absolute path. Ours comes first in the class path, so both have
  // the same release.
  const paths = { jute: join(JARS, "zookeeper-jute.jar"), log: join(JARS, "slf4j-simple.jar") };
  return { name: "zookeeper", version, paths: { java, jar, ...paths } };
}

async function fromProgram(
  name: EngineName,
  server: string | undefined,
  versionOption = "--version",
  others: Readonly<Record<string, string | undefined>> = {},
): Promise<Engine | undefined> {
  if (server === undefined) return undefined;
  const paths: Record<string, string> = { server };
  for (const [role, path] of Object.entries(others)) {
    if (path === undefined) return undefined;
    paths[role] = path;
  }
  const { stdout } = await promisify(execFile)(server, [versionOption]);
  return { name, version: /\d+\.\d[\w.]*/.exec(stdout)?.[0] ?? "unknown", paths };
}

/** The path of a program, searched in PATH and in the folders that only root has in its PATH. */
export function findInPath(program: string): string | undefined {
  const folders = (process.env.PATH ?? "").split(delimiter).filter((folder) => folder !== "");
  return findInFolders(program, [...folders, "/usr/sbin", "/sbin"]);
}

function findInFolders(program: string, folders: readonly string[]): string | undefined {
  return folders.map((folder) => join(folder, program)).find(isExecutable);
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** The path for a role. Throws if the engine has none. */
export function findPath(engine: Engine, role: string): string {
  const path = engine.paths[role];
  if (path === undefined) throw new Error(`${engine.name} ${engine.version} has no ${role}.`);
  return path;
}
