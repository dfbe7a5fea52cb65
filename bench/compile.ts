// Compiles a worker that is written in TypeScript to one file, so that its many processes start
// without a compiler, which costs each of them more CPU time than the rest of its start.

import { rmSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";

// Inside the repository, because the compiled file imports packages by name.
const FOLDER = fileURLToPath(new URL("../node_modules/.cache/tenure-bench/", import.meta.url));
const compiled = new Map<string, Promise<URL>>();

/** Resolves with the compiled file. Each program is compiled once per process. */
export function compile(program: URL): Promise<URL> {
  const known = compiled.get(program.href) ?? compileNow(program);
  compiled.set(program.href, known);
  return known;
}

async function compileNow(program: URL): Promise<URL> {
  const path = fileURLToPath(program);
  // Two runs at a time may compile the same program.
  const outfile = join(FOLDER, `${basename(path, ".ts")}-${process.pid}.mjs`);
  process.once("exit", () => rmSync(outfile, { force: true }));
  await build({
    entryPoints: [path],
    outfile,
    bundle: true,
    packages: "external",
    platform: "node",
    format: "esm",
    sourcemap: "inline",
    logLevel: "error",
  });
  return pathToFileURL(outfile);
}
