// Cases for CommonJS on the current Node: require() finds every public name. And cases for Bun and
// Deno: the conformance suite on memory and SQLite, and the snippets of the README.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { CannotRunError } from "../../../test/servers/engine.ts";
import type { Case, Lab } from "../lab.ts";
import { npm, type Project } from "../project.ts";
import { tsBlocks } from "./pages.ts";

interface Runtime {
  readonly name: "bun" | "deno";
  readonly run: readonly string[];
}

const RUNTIMES: readonly Runtime[] = [
  { name: "bun", run: ["run"] },
  { name: "deno", run: ["run", "--allow-all", "--no-check", "--node-modules-dir=manual"] },
];

export const COMMON_JS: Case = {
  group: "commonjs",
  name: `require() on Node ${process.version}`,
  run: async (lab) => {
    const peers = ["@nestjs/common@12", "@nestjs/core@12", "@nestjs/schedule@12"];
    const packages = [...peers, "reflect-metadata@0.2", "rxjs@7"];
    const project = await lab.project({ packages, type: "commonjs" });
    const output = await project.must(process.execPath, ["require-all.cjs"]);
    if (!output.includes("passed")) throw new Error(output);
    return "every public name";
  },
};

export const OTHER_RUNTIMES: readonly Case[] = RUNTIMES.flatMap((runtime) => {
  let opened: Promise<{ project: Project; binary: string }> | undefined;
  const open = (lab: Lab): Promise<{ project: Project; binary: string }> => {
    opened ??= install(lab, runtime.name);
    return opened;
  };
  return [
    {
      group: runtime.name,
      name: "conformance",
      run: async (lab) => {
        const { project, binary } = await open(lab);
        const env = { STORES: "memory,sqlite" };
        const output = await project.must(binary, [...runtime.run, "conformance.mjs"], env);
        const count = /^\d+ passed, .*$/m.exec(output)?.[0];
        if (count === undefined) throw new Error(output);
        return `${project.readVersion(runtime.name)}, memory and SQLite: ${count}`;
      },
    },
    {
      group: runtime.name,
      name: "README",
      run: async (lab) => {
        const { project, binary } = await open(lab);
        const snippets = tsBlocks(lab.page("README.md")).map(withoutBetterSqlite3);
        for (const [index, snippet] of snippets.entries()) {
          project.write(`snippet-${index}.ts`, snippet);
          await project.must(binary, [...runtime.run, `snippet-${index}.ts`]);
        }
        return `${snippets.length} snippets`;
      },
    },
  ];
});

/**
 * Bun cannot load better-sqlite3. Uses node:sqlite instead, as a comment in the README suggests.
 */
function withoutBetterSqlite3(code: string): string {
  return code.replace(
    /import Database from "better-sqlite3";.*/,
    'import { DatabaseSync as Database } from "node:sqlite";',
  );
}

async function install(
  lab: Lab,
  name: Runtime["name"],
): Promise<{ project: Project; binary: string }> {
  const project = await lab.project({ packages: [`${name}@latest`] });
  // The install script of the package downloads the binary for this platform.
  await npm(["rebuild", name, "--ignore-scripts=false"], { cwd: project.folder }).catch((error) => {
    throw new CannotRunError(
      `The binary of ${name} for this platform could not be installed: ${error}`,
    );
  });
  const binary = join(project.folder, "node_modules", ".bin", name);
  if (!existsSync(binary)) throw new CannotRunError(`npm has no ${name} for this platform.`);
  return { project, binary };
}
