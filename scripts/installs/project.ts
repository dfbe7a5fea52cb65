// A temporary project in which npm installs the packed library and other packages, as a user would.
// Programs run in it as separate processes. All projects share npm's cache and one archive of the
// library.
import { spawn } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** Far longer than any step takes, even on a busy machine. A step that hangs fails. */
const LIMIT_MS = 10 * 60_000;
const PROGRAMS = fileURLToPath(new URL("./programs", import.meta.url));

export interface Ended {
  readonly code: number | null;
  readonly output: string;
}

export interface ExecOptions {
  readonly cwd: string;
  readonly env?: Readonly<Record<string, string | undefined>>;
  readonly limitMs?: number;
}

/** Runs a command until it exits and collects its output. */
function exec(command: string, args: readonly string[], options: ExecOptions): Promise<Ended> {
  const env = { ...process.env, ...options.env };
  const child = spawn(command, args, { cwd: options.cwd, env, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
  const timer = setTimeout(() => child.kill("SIGKILL"), options.limitMs ?? LIMIT_MS);
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => {
      clearTimeout(timer);
      resolve({ code, output: signal === null ? output : `${output}\nended by ${signal}` });
    });
  });
}

/** Like exec(), but throws if the command fails. The message contains the end of the output. */
async function must(
  command: string,
  args: readonly string[],
  options: ExecOptions,
): Promise<string> {
  const { code, output } = await exec(command, args, options);
  if (code === 0) return output;
  const end = output.trim().split("\n").slice(-25).join("\n");
  throw new Error(`${command} ${args.join(" ")} ended with ${code}:\n${end}`);
}

const npmCli = process.env.npm_execpath;

export function npm(args: readonly string[], options: ExecOptions): Promise<string> {
  return npmCli?.endsWith("npm-cli.js")
    ? must(process.execPath, [npmCli, ...args], options)
    : must("npm", args, options);
}

export interface ProjectOptions {
  /** Package specs for npm: croner@9, or with an alias: ts54@npm:typescript@5.4. */
  readonly packages: readonly string[];
  /** Install although a peer range of the library forbids the version. */
  readonly legacyPeerDeps?: boolean;
  readonly type?: "module" | "commonjs";
}

export class Project {
  readonly folder: string;

  private constructor(folder: string) {
    this.folder = folder;
  }

  /**
   * Creates the project. Without `legacyPeerDeps`, npm rejects versions outside the peer ranges.
   */
  static async create(folder: string, archive: string, options: ProjectOptions): Promise<Project> {
    mkdirSync(folder, { recursive: true });
    const manifest = { name: "scratch", private: true, type: options.type ?? "module" };
    writeFileSync(join(folder, "package.json"), JSON.stringify(manifest));
    const flags = ["--no-audit", "--no-fund", "--ignore-scripts", "--prefer-offline"];
    const legacy = options.legacyPeerDeps ? ["--legacy-peer-deps"] : [];
    // The packages are installed first, because a user adds the library to an existing project.
    if (options.packages.length > 0)
      await npm(["install", ...flags, ...legacy, ...options.packages], { cwd: folder });
    await npm(["install", ...flags, ...legacy, archive], { cwd: folder });
    cpSync(PROGRAMS, folder, { recursive: true });
    return new Project(folder);
  }

  write(path: string, text: string): void {
    mkdirSync(dirname(join(this.folder, path)), { recursive: true });
    writeFileSync(join(this.folder, path), text);
  }

  readVersion(name: string): string {
    const path = join(this.folder, "node_modules", name, "package.json");
    return (JSON.parse(readFileSync(path, "utf8")) as { version: string }).version;
  }

  /** The path of a program of a package, to be run with node. */
  bin(name: string, path: string): string {
    const file = join(this.folder, "node_modules", name, path);
    if (!existsSync(file)) throw new Error(`${name} has no ${path}.`);
    return file;
  }

  must(command: string, args: readonly string[], env: ExecOptions["env"] = {}): Promise<string> {
    return must(command, args, { cwd: this.folder, env });
  }

  exec(command: string, args: readonly string[], env: ExecOptions["env"] = {}): Promise<Ended> {
    return exec(command, args, { cwd: this.folder, env });
  }
}
