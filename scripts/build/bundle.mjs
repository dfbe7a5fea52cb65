// From what the compiler made, one module per source file, to what ships: one bundle per public name and program, and the
// parts that several of them share. Why: docs/adr/021-what-ships.md.
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { dirname, join, posix, relative } from "node:path";
import { build } from "esbuild";

/** Not exported, but wanted at their place: two programs, and what our own tests count and open with. */
const PROGRAMS = ["cli/main.js", "cli/demo.js", "connect.js", "stores/sqlite/driver.js"];

/** The models of servers, each with a place of its own: package.json leaves dist/sim out of what npm packs. */
const MODELS = ["etcd", "postgres", "redis", "zookeeper"].map((name) => `sim/stores/${name}.js`);

/** Bundles the compiled folder `from` into the folder `to`. `exported`: the targets in package.json, "./dist/index.js". */
export async function bundle({ from, to, exported }) {
  const modules = readdirSync(from, { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".js"))
    .map((name) => name.replaceAll("\\", "/"));
  const entries = new Set([
    ...exported.map((path) => path.replace(/^\.\/dist\//, "")),
    ...PROGRAMS,
    ...MODELS,
    ...modules.flatMap((module) => startedBeside(from, module, modules)),
  ]);
  const { outputFiles } = await build({
    entryPoints: [...entries].map((entry) => join(from, entry)),
    outbase: from,
    outdir: to,
    bundle: true,
    splitting: true,
    format: "esm",
    platform: "node",
    target: "es2022",
    packages: "external",
    minify: true,
    // Long enough to be small, short enough that a line number in a stack trace still says something.
    lineLimit: 200,
    chunkNames: "parts/[name]-[hash]",
    write: false,
    logLevel: "silent",
    plugins: [prepare(from)],
  });
  for (const { path, text } of outputFiles) {
    const place = relative(to, path).replaceAll("\\", "/");
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, withPlaces(text, place));
  }
}

/** The modules beside this one that it starts by their URL: `new URL("./worker.js", import.meta.url)`. */
function startedBeside(from, module, modules) {
  const text = readFileSync(join(from, module), "utf8");
  return [...text.matchAll(/new URL\(["`]\.\/([\w-]+)/g)]
    .map(([, name]) => posix.join(posix.dirname(module), `${name}.js`))
    .filter((path) => modules.includes(path));
}

const DECLARED_CLASS = /^((?:export )?class (\w+)(?: extends [^{\n]+)? \{)$/gm;
/** A name, because a line may be broken inside a string. The letters of the module's path follow as hex digits. */
const PLACE = /PLACE_OF_([0-9a-f]+)/g;

/**
 * Errors go by the name of their class, and so does whatever is printed for debugging: classes keep theirs. And a module that
 * asks for its own place gets the one that it would have without a bundle.
 */
function prepare(from) {
  return {
    name: "prepare",
    setup: ({ onLoad }) =>
      onLoad({ filter: /\.js$/ }, async ({ path }) => {
        const place = relative(from, path).replaceAll("\\", "/");
        const text = await readFile(path, "utf8");
        const name = `PLACE_OF_${Buffer.from(place).toString("hex")}`;
        const contents = text
          .replace(DECLARED_CLASS, '$1 static name = "$2";')
          .replaceAll("import.meta.url", `new URL(${name}, import.meta.url).href`);
        return { contents };
      }),
  };
}

/** Now that it is known which file a module went into, the way from there to its place. */
function withPlaces(text, file) {
  return text.replace(PLACE, (_, hex) => {
    const place = Buffer.from(hex, "hex").toString();
    return JSON.stringify(posix.relative(posix.dirname(file), place));
  });
}
