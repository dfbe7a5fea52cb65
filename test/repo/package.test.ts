// Goal: what npm would publish is what we promise, no more and no less. Method: compare package.json with the
// built files and with the list npm itself makes, import every export by its public name, and run the packed program.
import { execFileSync, spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join, posix } from "node:path";
import { fileURLToPath } from "node:url";
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

/** What npm would put into the package. Run through a shell, since npm is a script on some platforms. */
function packed(): { path: string; size: number }[] {
  const output = execFileSync("npm pack --dry-run --json --ignore-scripts", {
    cwd: root,
    encoding: "utf8",
    shell: true,
    stdio: ["ignore", "pipe", "ignore"],
  });
  const [pack] = JSON.parse(output) as { files: { path: string; size: number }[] }[];
  return pack?.files ?? [];
}

describe("exports", () => {
  test("every export is listed by name, never by a pattern", () => {
    expect(entries.length).toBeGreaterThan(0);
    expect(Object.keys(manifest.exports).filter((name) => name.includes("*"))).toEqual([]);
  });

  test.each(entries)(
    "$name has its built file and its types, at the place of its name",
    (entry) => {
      const path = entry.name === "." ? "index" : entry.name.slice(2);
      const places = [path, `${path}/index`, `adapters/${path}`].map(
        (place) => `./dist/${place}.js`,
      );
      expect(places).toContain(entry.default);
      expect(entry.types).toBe(entry.default.replace(/\.js$/, ".d.ts"));
      expect(existsSync(join(root, entry.default)), entry.default).toBe(true);
      expect(existsSync(join(root, entry.types)), entry.types).toBe(true);
    },
  );

  test.each(entries)("$name can be imported by its public name and exports something", (entry) => {
    // In a process of its own: the real resolution of node, not that of the test runner.
    const name = join("tenure", entry.name).replaceAll("\\", "/");
    const script = `import(${JSON.stringify(name)}).then((m) => console.log(JSON.stringify(Object.keys(m))))`;
    const output = execFileSync(process.execPath, ["-e", script], { cwd: root, encoding: "utf8" });
    const names = JSON.parse(output) as string[];
    expect(names.length).toBeGreaterThan(0);
    expect(names).not.toContain("default");
  });
});

test("errors go by the name of their class, though the bundle has short names", async () => {
  const module = (await import(join(root, "dist/index.js"))) as Record<string, unknown>;
  const errors = Object.entries(module).filter(([name]) => /^[A-Z]\w*Error$/.test(name));
  expect(errors.length).toBeGreaterThan(10);
  for (const [name, errorClass] of errors) expect((errorClass as { name: string }).name).toBe(name);
  const { parseToken } = module as { parseToken(text: string): bigint };
  expect(() => parseToken("x")).toThrow(expect.objectContaining({ name: "InvalidArgumentError" }));
});

test("every public type is complete, though only what can be reached is shipped", () => {
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
    // Of other people's packages it may find fault with some.
    const ours = stdout.split("\n").filter((line) => /(?:^|\/)(?:dist\/|all\.ts)/.test(line));
    expect(ours.filter((line) => !line.includes("node_modules"))).toEqual([]);
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test("the program is there, with its first line, and says its version", () => {
  const program = join(root, manifest.bin.tenure);
  expect(readFileSync(program, "utf8").startsWith("#!/usr/bin/env node\n")).toBe(true);
  const output = execFileSync(process.execPath, [program, "--version"], { encoding: "utf8" });
  expect(output).toBe(`${manifest.version}\n`);
});

const all = packed();

describe("the packed files", () => {
  const files = all.map((file) => file.path);

  test("are at most 800 kB unpacked", () => {
    expect(all.length).toBeGreaterThan(0);
    expect(all.reduce((sum, file) => sum + file.size, 0)).toBeLessThanOrEqual(800_000);
  });

  test("contain every export and the pages a user reads first", () => {
    const wanted = entries.flatMap((entry) => [entry.default.slice(2), entry.types.slice(2)]);
    for (const path of [...wanted, "package.json", "README.md", "LICENSE"]) {
      expect(files).toContain(path);
    }
  });

  test("contain no test, no source map and nothing outside dist but the pages", () => {
    expect(files.filter((path) => /\.test\b|\.test-d\b|\.map$/.test(path))).toEqual([]);
    const pages = ["package.json", "README.md", "LICENSE", "man/tenure.1"];
    const others = files.filter((path) => !/^dist\/.+\.(js|d\.ts)$/.test(path));
    expect(others.sort()).toEqual(pages.sort());
  });

  test("point to no page that is not packed; the demo does only in a clone", () => {
    const lines = files
      .filter((path) => path.endsWith(".js"))
      .flatMap((path) =>
        readFileSync(join(root, path), "utf8")
          .replaceAll("\\\n", "")
          .match(/.{0,30}(?<!HEAD\/)docs\/[\w/-]+(?:\.md)?/g),
      )
      .filter((line) => line !== null);
    expect(lines).toEqual([expect.stringContaining("less docs/walk.md")]);
  });

  test("have a README whose links are absolute, and the repository gets its own back", () => {
    const text = readFileSync(join(root, "README.md"), "utf8");
    const links = (page: string): string[] =>
      [...page.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = ""]) => target);
    expect(links(absolute(text)).filter((link) => !/^(?:https:|#)/.test(link))).toEqual([]);
    expect(links(text).some((link) => link.startsWith("docs/"))).toBe(true);
    expect(relative(absolute(text))).toBe(text);
  });

  test("mention no path of the machine they were built on", () => {
    const dist = files.filter((path) => path.startsWith("dist/"));
    expect(dist.length).toBeGreaterThan(0);
    expect(
      dist.filter((path) => readFileSync(join(root, path), "utf8").includes(root.slice(0, -1))),
    ).toEqual([]);
  });
});

/** The models that stay in the repository, each with classes that nothing else has: the bundle keeps their names. */
const MODELS: Readonly<Record<string, readonly string[]>> = {
  etcd: ["EtcdServer", "SimulatedTransport"],
  postgres: ["PgServer", "Database"],
  redis: ["RedisServer", "Parser", "LuaError"],
  zookeeper: ["Ensemble", "Member"],
};

describe("the models of servers", () => {
  const files = all.map(({ path }) => path).filter((path) => path.endsWith(".js"));
  /** The bundle breaks its lines also inside of strings. */
  const textOf = (path: string): string =>
    readFileSync(join(root, path), "utf8").replaceAll("\\\n", "");

  test.each(Object.entries(MODELS))("that of %s is built and not packed", (name, classes) => {
    const path = `dist/sim/stores/${name}.js`;
    expect(files).not.toContain(path);
    for (const mark of classes.map((each) => JSON.stringify(each))) {
      expect(textOf(path)).toContain(mark);
      expect(files.filter((each) => textOf(each).includes(mark))).toEqual([]);
    }
  });

  test("share no part of their own: every packed part is reached without them", () => {
    const started = files.filter((path) => !path.startsWith("dist/parts/"));
    const reached = new Set<string>();
    for (const waiting = [...started]; waiting.length > 0; ) {
      const path = waiting.pop() as string;
      if (reached.has(path) || !files.includes(path)) continue;
      reached.add(path);
      for (const [, to = ""] of textOf(path).matchAll(/["'`](\.{1,2}\/[\w./-]+\.js)["'`]/g))
        waiting.push(posix.join(posix.dirname(path), to));
    }
    expect(files.filter((path) => !reached.has(path))).toEqual([]);
  });
});

describe("the simulator of an installed package", () => {
  let folder = "";

  beforeAll(() => {
    folder = mkdtempSync(join(tmpdir(), "tenure-installed-"));
    const pack = `npm pack --ignore-scripts --pack-destination "${folder}"`;
    execFileSync(pack, { cwd: root, shell: true, stdio: "ignore" });
    const [archive = ""] = readdirSync(folder);
    execFileSync("tar", ["-xzf", archive], { cwd: folder });
  });

  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  function sim(...words: string[]): { code: number | null; out: string; err: string } {
    const program = join(folder, "package", manifest.bin.tenure);
    const options = { cwd: folder, encoding: "utf8" } as const;
    const ended = spawnSync(process.execPath, [program, "sim", ...words], options);
    return { code: ended.status, out: ended.stdout, err: ended.stderr };
  }

  test.each([["1..3"], ["1..30"]])("runs seeds %s, also in threads", (seeds) => {
    const { code, out, err } = sim("--seeds", seeds, "--jobs", "2");
    expect({ code, err }).toEqual({ code: 0, err: "" });
    expect(out).toContain(`${seeds.slice(3)} seeds on the model of memory`);
  });

  test("plays a scene", () => {
    const { code, out } = sim("settlement", "--no-page");
    expect(code).toBe(0);
    expect(out).toMatch(/^stale writes refused +0 +47$/m);
  });

  test.each(Object.keys(MODELS))("says where the model of %s is to be had", (name) => {
    for (const seeds of ["1..3", "1..30"]) {
      const { code, out, err } = sim("--seeds", seeds, "--store", name);
      expect({ code, out }).toEqual({ code: 2, out: "" });
      expect(err).toContain(`The model of ${name} is not in the npm package`);
      expect(err).toContain(`npm run sim -- --store ${name}`);
      expect(err.trim().split("\n")).toHaveLength(1);
    }
    expect(sim("--seed", "1", "--store", name).code).toBe(2);
  });

  test("shows any other failure to load a model as it is", () => {
    const models = join(folder, "package/dist/sim/stores");
    mkdirSync(models, { recursive: true });
    writeFileSync(join(models, "etcd.js"), 'import "./gone.js";\n');
    writeFileSync(join(models, "redis.js"), 'throw new Error("The model is broken.");\n');
    const gone = sim("--seed", "1", "--store", "etcd");
    expect(gone).toMatchObject({ code: 71, err: expect.stringContaining("gone.js") });
    const broken = sim("--seed", "1", "--store", "redis");
    expect(broken).toMatchObject({ code: 71, err: expect.stringContaining("model is broken") });
  });
});

test("there are no runtime dependencies, and every peer is optional", () => {
  expect(manifest.dependencies ?? {}).toEqual({});
  expect(manifest.optionalDependencies ?? {}).toEqual({});
  for (const peer of Object.keys(manifest.peerDependencies)) {
    expect(manifest.peerDependenciesMeta[peer], peer).toEqual({ optional: true });
  }
});
