// `npm start`: compiles the demo and runs it. Its processes then start in a fraction of a second.

import { existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

// Inside the repository, because the compiled files import packages by name.
const folder = new URL("../../node_modules/.cache/tenure-demo/", import.meta.url);
const { outputFiles } = await build({
  entryPoints: ["main.ts", "worker.ts"].map((name) =>
    fileURLToPath(new URL(name, import.meta.url)),
  ),
  outdir: fileURLToPath(folder),
  outExtension: { ".js": ".mjs" },
  bundle: true,
  splitting: true,
  packages: "external",
  platform: "node",
  format: "esm",
  sourcemap: "inline",
  logLevel: "error",
  write: false,
});
for (const { path, contents } of outputFiles) {
  if (existsSync(path) && readFileSync(path).equals(contents)) continue;
  mkdirSync(dirname(path), { recursive: true });
  // Replaced in one step, because another run of the demo may be reading it.
  writeFileSync(`${path}.${process.pid}`, contents);
  renameSync(`${path}.${process.pid}`, path);
}
await import(new URL("main.mjs", folder).href);
