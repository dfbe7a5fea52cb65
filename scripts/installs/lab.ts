// What the cases share: the packed archive of the library, the temporary folder, and real servers,
// which are started on first use.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { startPostgres } from "../../test/servers/postgres.ts";
import { startRedis } from "../../test/servers/redis.ts";
import { npm, Project, type ProjectOptions } from "./project.ts";

export const root: string = fileURLToPath(new URL("../..", import.meta.url));

interface Server extends AsyncDisposable {
  readonly url: string;
}

export class Lab implements AsyncDisposable {
  readonly archive: string;
  readonly folder: string;
  readonly #servers = new Map<string, Promise<Server>>();
  #projects = 0;

  private constructor(folder: string, archive: string) {
    this.folder = folder;
    this.archive = archive;
  }

  static async open(): Promise<Lab> {
    const folder = mkdtempSync(join(tmpdir(), "tenure-installs-"));
    await npm(["pack", "--pack-destination", folder], { cwd: root });
    const [archive = ""] = readdirSync(folder).filter((name) => name.endsWith(".tgz"));
    return new Lab(folder, join(folder, archive));
  }

  project(options: ProjectOptions): Promise<Project> {
    this.#projects += 1;
    return Project.create(join(this.folder, `project-${this.#projects}`), this.archive, options);
  }

  /** Reads package.json of the library. */
  manifest(): { exports: Record<string, unknown> } {
    return JSON.parse(this.page("package.json"));
  }

  /** Reads a file of the repository. */
  page(path: string): string {
    return readFileSync(join(root, path), "utf8");
  }

  async redisUrl(): Promise<string> {
    return (await this.#server("redis", () => startRedis({ own: true }))).url;
  }

  async postgresUrl(): Promise<string> {
    return (await this.#server("postgres", () => startPostgres({ own: true }))).url;
  }

  #server(name: string, start: () => Promise<Server>): Promise<Server> {
    const running = this.#servers.get(name) ?? start();
    this.#servers.set(name, running);
    return running;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const server of await Promise.allSettled(this.#servers.values()))
      if (server.status === "fulfilled") await server.value[Symbol.asyncDispose]();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** One line of the table. */
export interface Case {
  /** The name that selects this case: `npm run test:installs -- GROUP`. */
  readonly group: string;
  readonly name: string;
  /** Resolves with a remark for the table, or rejects. */
  run(lab: Lab): Promise<string>;
}
