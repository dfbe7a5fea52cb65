// Which engines this machine has: the programs of each, where Debian's packages or PATH have them. Nothing is
// started or changed here; install.ts adds what is missing.
import { execFile } from "node:child_process";
import { accessSync, constants, existsSync, readdirSync } from "node:fs";
import { delimiter, join } from "node:path";
import { promisify } from "node:util";

/** pgbouncer and openssl are no engines, but some tests of poolers and of TLS cannot do without them. */
export type EngineName = "redis" | "etcd" | "postgres" | "zookeeper" | "pgbouncer" | "openssl";

export interface Engine {
  readonly name: EngineName;
  readonly version: string;
  /** Paths by role: `server`; for postgres also `initdb`, `basebackup`, `ctl` and `psql`; for zookeeper `java`, `jar` and `log`. */
  readonly paths: Readonly<Record<string, string>>;
}

/** A test that cannot run here, and why. It is for useServer() to skip by; elsewhere it is an error like any other. */
export class CannotRunError extends Error {}

export class MissingEngineError extends CannotRunError {
  readonly reason: string;

  constructor(name: EngineName, reason: string) {
    super(`missing engine ${name}: ${reason}`);
    this.reason = reason;
  }
}

/** The Debian package that has it. */
export const packageOf: Readonly<Record<EngineName, string>> = {
  redis: "redis-server",
  etcd: "etcd-server",
  postgres: "postgresql",
  zookeeper: "zookeeper",
  pgbouncer: "pgbouncer",
  openssl: "openssl",
};

/** Where packages lie that were unpacked rather than installed: scripts/test-on-engines.mjs. */
const ROOT = process.env.TENURE_TEST_ROOT ?? "/";
const POSTGRES_HOMES = join(ROOT, "usr/lib/postgresql");
const JARS = join(ROOT, "usr/share/java");

/** What is installed, or undefined and nothing else: it never installs. */
export async function findEngine(name: EngineName): Promise<Engine | undefined> {
  switch (name) {
    case "redis":
      return fromProgram(name, inPath("redis-server") ?? inPath("valkey-server"));
    case "etcd":
      return fromProgram(name, inPath("etcd"));
    case "pgbouncer":
      return fromProgram(name, inPath("pgbouncer"));
    case "openssl":
      return fromProgram(name, inPath("openssl"), "version");
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
    inFolders(program, folders) ?? inPath(program);
  const server = find("postgres");
  const paths = { initdb: find("initdb"), basebackup: find("pg_basebackup"), ctl: find("pg_ctl") };
  return fromProgram("postgres", server, "--version", { ...paths, psql: find("psql") });
}

async function findZooKeeper(): Promise<Engine | undefined> {
  const java = inPath("java");
  const jar = join(JARS, "zookeeper.jar");
  if (java === undefined || !existsSync(jar)) return undefined;
  // A second name of the jar has the version in it; asking the JVM would take half a second.
  const versions = readdirSync(JARS).map((name) => /^zookeeper-(\d[\d.]*)\.jar$/.exec(name)?.[1]);
  const version = versions.find((found) => found !== undefined) ?? "unknown";
  // The jar names its messages by an absolute path: ours go first, so that they are of the same release.
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

/** The path of a program as a shell would find it, and in the folders that only root has in its PATH. */
export function inPath(program: string): string | undefined {
  const folders = (process.env.PATH ?? "").split(delimiter).filter((folder) => folder !== "");
  return inFolders(program, [...folders, "/usr/sbin", "/sbin"]);
}

function inFolders(program: string, folders: readonly string[]): string | undefined {
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

/** The path that the engine has for a role. */
export function pathOf(engine: Engine, role: string): string {
  const path = engine.paths[role];
  if (path === undefined) throw new Error(`${engine.name} ${engine.version} has no ${role}.`);
  return path;
}
