// Goal: npm publishes exactly what package.json and the documentation promise. Method: compare
// package.json with the built files and with npm's own list of files, import every export by its
// public name, and run the packed program.
import { execFileSync, spawnSync } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, posix } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { absolute, relative } from "../../scripts/readme-links.mjs";

const root = fileURLToPath(new URL("../..", import.meta.url));

interface Manifest {
  readonly version: string;
  readonly bin: { readonly tenure: string };
  readonly exports: Record<string, string | { types: string; default: string }>;
  readonly dependencies?: Record<string, string>;
  readonly optionalDependencies?: Record<string, string>;
  readonly peerDependencies: Record<string, string>;
  readonly peerDependenciesMeta: Record<string, { optional: boolean }>;
}

const manifest = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as Manifest;
const entries = Object.entries(manifest.exports).flatMap(([name, target]) =>
  typeof target === "string" ? [] : [{ name, ...target }],
);

/**
 * The files that npm would publish. It runs in a shell, because npm is a script on some platforms.
 */
function listPackedFiles(): { path: string; size: number }[] {
  const output = execFileSync("npm pack --dry-run --json --ignore-scripts", {
    cwd: root,
    encoding: "utf8",
    shell: true,
    stdio: ["ignore", "pipe", "ignore"],
  });
  const [pack] = JSON.parse(output) as { files: { path: string; size: number }[] }[];
  return pack?.files ?? [];
}

/** Comments may refer to pages of the repository; messages may not. */
function withoutComments(source: string): string {
  return source.replace(/\/\*[\s\S]*?\*\/|^\s*\/\/.*$/gm, "");
}

describe("exports", () => {
  test("every export is listed by name, never by a pattern", () => {
    expect(entries.length).toBeGreaterThan(0);
    expect(Object.keys(manifest.exports).filter((name) => name.includes("*"))).toEqual([]);
  });

  test.each(entries)(
    "$name has its built file and its types, at the path that its name implies",
    (entry) => {
      const path = entry.name === "." ? "index" : entry.name.slice(2);
      const places: Record<string, string> = {
        store: "stores/contract",
        proof: "guards/proof/index",
        index: "index",
      };
      expect(entry.default).toBe(`./dist/${places[path] ?? `${path}/index`}.js`);
      expect(entry.types).toBe(entry.default.replace(/\.js$/, ".d.ts"));
      expect(existsSync(join(root, entry.default)), entry.default).toBe(true);
      expect(existsSync(join(root, entry.types)), entry.types).toBe(true);
    },
  );

  test("every export can be imported by its public name and exports something", () => {
    // A separate process uses the module resolution of Node, not that of the test runner.
    const paths = entries.map(({ name }) => posix.join("tenure", name));
    const script = `for (const path of ${JSON.stringify(paths)})
      console.log(JSON.stringify([path, Object.keys(await import(path))]));`;
    const args = ["--input-type=module", "-e", script];
    const output = execFileSync(process.execPath, args, { cwd: root, encoding: "utf8" });
    const found = new Map(
      output
        .trim()
        .split("\n")
        .map((line) => JSON.parse(line) as [string, string[]]),
    );
    for (const path of paths) {
      // The store contract has mostly types, but also constants.
      expect(found.get(path)?.length, path).toBeGreaterThan(0);
      expect(found.get(path), path).not.toContain("default");
    }
  });
});

test("every public type resolves without errors", () => {
  const folder = mkdtempSync(join(root, ".docs-types-"));
  try {
    const lines = entries.map(({ name }, index) => {
      const from = `tenure${name.slice(1)}`;
      return `import * as m${index} from "${from}";\nexport { m${index} };\n`;
    });
    writeFileSync(join(folder, "all.ts"), lines.join(""));
    const compilerOptions = { skipLibCheck: false, noEmit: true, types: ["node"] };
    const project = { extends: "../../tsconfig.json", compilerOptions, include: ["all.ts"] };
    writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(project));
    const tsc = join(root, "node_modules/typescript/bin/tsc");
    const { stdout } = spawnSync(process.execPath, [tsc, "-p", folder], { encoding: "utf8" });
    // Errors in the types of other packages do not count.
    const ours = stdout.split("\n").filter((line) => /(?:^|\/)(?:dist\/|all\.ts)/.test(line));
    expect(ours.filter((line) => !line.includes("node_modules"))).toEqual([]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test("the program exists, starts with a shebang line, and prints its version", () => {
  const program = join(root, manifest.bin.tenure);
  expect(readFileSync(program, "utf8").startsWith("#!/usr/bin/env node\n")).toBe(true);
  const output = execFileSync(process.execPath, [program, "--version"], { encoding: "utf8" });
  expect(output).toBe(`${manifest.version}\n`);
});

const all = listPackedFiles();

describe("the packed files", () => {
  const files = all.map((file) => file.path);
  const text = (path: string): string => readFileSync(join(root, path), "utf8");
  const scripts = files.filter((path) => path.endsWith(".js"));

  test("stay within the size limits: code and declarations 400 kB, the whole archive 1.05 MB", () => {
    const code = files.filter((path) => /^dist\/.+\.(js|d\.ts)$/.test(path));
    expect(code.length).toBeGreaterThan(0);
    expect(gzipSync(code.map(text).join("")).length).toBeLessThanOrEqual(400_000);
    expect(gzipSync(files.map(text).join("")).length).toBeLessThanOrEqual(1_050_000);
  });

  test("contain every export, the README and the license", () => {
    const wanted = entries.flatMap((entry) => [entry.default.slice(2), entry.types.slice(2)]);
    for (const path of [...wanted, "package.json", "README.md", "LICENSE"]) {
      expect(files).toContain(path);
    }
  });

  test("are the sources without tests, the compiled files, the man page, the README and the license", () => {
    expect(files.filter((path) => /\.test\b|\.test-d\b/.test(path))).toEqual([]);
    const pages = ["package.json", "README.md", "LICENSE", "man/tenure.1"];
    const others = files.filter(
      (path) => !/^dist\/.+\.(js|d\.ts)(\.map)?$|^src\/.+\.ts$/.test(path),
    );
    expect(others.sort()).toEqual(pages.sort());
  });

  test("every script has a source map, and every map names a packed source", () => {
    expect(scripts.length).toBeGreaterThan(100);
    for (const path of scripts) {
      expect(text(path)).toContain(`//# sourceMappingURL=${posix.basename(path)}.map`);
      const { sources } = JSON.parse(text(`${path}.map`)) as { sources: string[] };
      expect(sources).toHaveLength(1);
      expect(files).toContain(posix.join(posix.dirname(path), sources[0] ?? ""));
    }
  });

  test("scripts are not minified and keep their comments", () => {
    const long = scripts.filter((path) =>
      text(path)
        .split("\n")
        .some((line) => line.length > 1_000),
    );
    expect(long).toEqual([]);
    expect(text("dist/core/deadline.js")).toMatch(/^\/\/ /);
  });

  test("contain no reference to pages that are not packed", () => {
    const lines = scripts.flatMap(
      (path) =>
        withoutComments(text(path)).match(/.{0,30}(?<!HEAD\/)docs\/[\w/-]+(?:\.md)?/g) ?? [],
    );
    expect(lines).toEqual([]);
  });

  test("have a README with absolute links, and its original links can be restored", () => {
    const readme = text("README.md");
    const links = (page: string): string[] =>
      [...page.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = ""]) => target);
    expect(links(absolute(readme)).filter((link) => !/^(?:https:|#)/.test(link))).toEqual([]);
    expect(links(readme).some((link) => link.startsWith("docs/"))).toBe(true);
    expect(relative(absolute(readme))).toBe(readme);
  });

  test("contain no path of the machine that built them", () => {
    const dist = files.filter((path) => path.startsWith("dist/"));
    expect(dist.length).toBeGreaterThan(0);
    expect(
      dist.filter((path) => readFileSync(join(root, path), "utf8").includes(root.slice(0, -1))),
    ).toEqual([]);
  });
});

describe("an installed copy", () => {
  let folder = "";

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "tenure-installed-"));
    for (const { path } of all) {
      const target = join(folder, "package", path);
      mkdirSync(dirname(target), { recursive: true });
      copyFileSync(join(root, path), target);
    }
  });

  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  function run(script: string, ...flags: string[]): string {
    const args = [...flags, "--input-type=module", "-e", script];
    const { stdout, stderr } = spawnSync(process.execPath, args, {
      cwd: join(folder, "package"),
      encoding: "utf8",
    });
    return stdout + stderr;
  }

  test("a stack trace points to lines of src", () => {
    const trace = run(
      `import { parseToken } from "tenure"; try { parseToken("x"); } catch (error) { console.log(error.stack); }`,
      "--enable-source-maps",
    );
    const [, line] = /src\/core\/token\.ts:(\d+):\d+/.exec(trace) ?? [];
    const source = readFileSync(join(root, "src/core/token.ts"), "utf8").split("\n");
    expect(source[Number(line) - 1]).toContain("InvalidArgumentError");
  });

  test("importing tenure loads no CLI, and no store, client library or guard", () => {
    const loaded = run(
      `import { register } from "node:module";
       register("data:text/javascript," + encodeURIComponent(
         'export async function load(url, context, next) { process._rawDebug(url); return next(url, context); }'));
       await import("tenure");`,
    );
    const own = [...loaded.matchAll(/package\/dist\/([\w/.-]+\.js)/g)].map(([, path = ""]) => path);
    expect(own).toContain("connect.js");
    const unwanted = own.filter((path) =>
      /^(cli\/|guards|testing|schedulers|clients\/(?!shared))|^stores\/\w+\//.test(path),
    );
    expect(unwanted).toEqual([]);
    expect(loaded).not.toContain("node_modules");
  });
});

test("there are no runtime dependencies, and every peer is optional", () => {
  expect(manifest.dependencies ?? {}).toEqual({});
  expect(manifest.optionalDependencies ?? {}).toEqual({});
  for (const peer of Object.keys(manifest.peerDependencies)) {
    expect(manifest.peerDependenciesMeta[peer], peer).toEqual({ optional: true });
  }
});
