// Goal: every file follows the rules of the repository. Method: scan the source text. Each rule
// must first find a planted violation and accept a corrected version, so a rule that can never fail
// is noticed. The scan itself fails if it finds no file.
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { biomeOverrides } from "../support/repo/layers.ts";
import { proseRules } from "../support/repo/prose-rules.ts";
import { blankNonCode, findBlocks, findImports } from "../support/repo/source-text.ts";
import {
  rules as codeRules,
  fileLinesMax,
  functionLinesMax,
  type SourceFile,
} from "../support/repo/tidy-rules.ts";

const rules = [...codeRules, ...proseRules];
const root = fileURLToPath(new URL("../..", import.meta.url));

function readFilesBelow(folder: string): SourceFile[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: "utf8" })
    .filter((name) => /\.(ts|mjs)$/.test(name) && !name.includes("node_modules"))
    .map((name) => `${folder}/${name.replaceAll("\\", "/")}`)
    .map((path) => ({ path, text: readFileSync(join(root, path), "utf8") }));
}

const filler = (lines: number): string => "  step();\n".repeat(lines);

/** For each rule: files that break it, and similar files that do not. */
const planted: Record<string, { bad: [path: string, text: string][]; good: [string, string][] }> = {
  "imports follow the table of layers": {
    bad: [
      ["src/core/a.ts", 'import { x } from "../stores/contract.ts";'],
      ["src/core/a.ts", 'import { x } from "../async/clock.ts";'],
      ["src/core/a.ts", 'import { readFileSync } from "node:fs";'],
      ["src/core/a.ts", 'import { x } from "./b.js";'],
      ["src/async/a.ts", 'import { readFileSync } from "node:fs";'],
      ["src/async/a.ts", 'import { x } from "../holder/lease.ts";'],
      ["src/clients/sqlite/driver.ts", 'import { x } from "../../holder/lease.ts";'],
      ["src/clients/sqlite/driver.ts", 'import { x } from "../../stores/contract.ts";'],
      ["src/clients/redis/wire.ts", 'import { x } from "../etcd/rpc.ts";'],
      ["src/clients/redis/wire.ts", 'import Database from "better-sqlite3";'],
      ["src/stores/memory/index.ts", 'import { x } from "../sqlite/store.ts";'],
      ["src/stores/memory/index.ts", 'const x = await import("../sqlite/store.ts");'],
      ["src/stores/redis/index.ts", 'import { x } from "../../clients/etcd/rpc.ts";'],
      ["src/stores/memory/index.ts", 'import { randomUUID } from "node:crypto";'],
      ["src/stores/contract.ts", 'import { x } from "./memory/index.ts";'],
      ["src/guards/memory/index.ts", 'export { x } from "../../stores/contract.ts";'],
      ["src/guards/etcd/index.ts", 'import { x } from "../../clients/zookeeper/wire.ts";'],
      ["src/guards/etcd/index.ts", 'import { x } from "../../stores/etcd/grants.ts";'],
      ["src/holder/a.ts", 'import { x } from "../stores/memory/index.ts";'],
      ["src/holder/a.ts", 'import { AsyncLocalStorage } from "node:async_hooks";'],
      ["src/testing/a.ts", 'import { x } from "../holder/lease.ts";'],
      ["src/testing/a.ts", 'import { test } from "vitest";'],
      ["src/runtime/a.ts", 'import { x } from "../holder/lease.ts";'],
      ["src/runtime/a.ts", 'import { x } from "../../sim/world/world.ts";'],
      ["src/index.ts", 'import { x } from "./testing/index.ts";'],
      ["src/connect.ts", 'const x = import("./cli/main.ts");'],
      ["src/cli/a.ts", 'const x = import("../../sim/run.ts");'],
      ["src/schedulers/croner/index.ts", 'import { Inject } from "@nestjs/common";'],
      ["src/schedulers/croner/index.ts", 'import { x } from "../../stores/sqlite/index.ts";'],
      ["src/once/a.ts", 'import { x } from "../stores/sqlite/index.ts";'],
      ["src/elsewhere/a.ts", "export const x = 1;"],
      ["sim/world/a.ts", 'import { x } from "../../src/runtime/system.ts";'],
      ["sim/world/a.ts", 'import { x } from "node:timers";'],
    ],
    good: [
      ["src/core/a.ts", 'import { x } from "./b.ts"; // not from "../stores/contract.ts"'],
      ["src/async/context.ts", 'import { AsyncLocalStorage } from "node:async_hooks";'],
      ["src/stores/sqlite/index.ts", 'import { x } from "../../clients/sqlite/driver.ts";'],
      ["src/stores/sqlite/index.ts", 'import { x } from "./store.ts"; import "../contract.ts";'],
      ["src/clients/sqlite/driver.ts", 'const x = await import("better-sqlite3");'],
      [
        "src/clients/sqlite/driver.ts",
        'import { x } from "../../core/token.ts"; import "node:fs";',
      ],
      [
        "src/guards/sqlite/index.ts",
        'import { x } from "../guard.ts"; import "../../core/token.ts";',
      ],
      ["src/guards/etcd/index.ts", 'import { x } from "../../clients/etcd/kv.ts";'],
      ["src/guards/file/index.ts", 'import { x } from "../../clients/sqlite/driver.ts";'],
      ["src/election/a.ts", 'import { x } from "../holder/lease.ts";'],
      ["src/schedulers/nestjs/index.ts", 'import { Inject } from "@nestjs/common";'],
      ["src/connect.ts", 'const x = await import("./stores/sqlite/index.ts");'],
      ["sim/world/a.ts", 'import { x } from "../../src/stores/memory/index.ts";'],
      ["sim/cli/a.ts", 'import { x } from "../../src/runtime/system.ts";'],
    ],
  },
  "a file has at most 400 lines": {
    bad: [["src/core/a.ts", "x();\n".repeat(fileLinesMax + 1)]],
    good: [["src/core/a.ts", "x();\n".repeat(fileLinesMax)]],
  },
  "a function has at most 70 lines": {
    bad: [
      ["src/core/a.ts", `function f() {\n${filler(functionLinesMax)}}`],
      ["src/core/a.ts", `const f = (): { a: string } => {\n${filler(functionLinesMax)}};`],
      ["src/core/a.ts", `class A {\n  m(): { a: string } {\n${filler(functionLinesMax)}}\n}`],
      ["src/core/a.ts", `function f(x: string): Promise<void> {\n${filler(functionLinesMax)}}`],
      ["src/testing/a.ts", `describe("x", () => {\n${filler(functionLinesMax)}});`],
    ],
    good: [
      ["src/core/a.ts", `function f() {\n${filler(functionLinesMax - 2)}}`],
      ["src/core/a.ts", `class A {\n${"  m() {}\n".repeat(functionLinesMax)}}`],
      ["src/core/a.ts", `export const table = {\n${"  a: 1,\n".repeat(functionLinesMax)}};`],
      ["src/core/a.ts", `export interface A {\n${"  a: 1;\n".repeat(functionLinesMax)}}`],
      ["src/core/a.ts", `import {\n${"  a,\n".repeat(functionLinesMax)}} from "./b.ts";`],
      ["src/testing/a.ts", `f(() => {\n${`test("x", () => {\n${filler(9)}});\n`.repeat(30)}});`],
    ],
  },
  "a file opens with a comment": {
    bad: [["src/core/a.ts", "export const x = 1; // late"]],
    good: [["src/core/a.ts", "// Owns x.\nexport const x = 1;"]],
  },
  "nothing is exported by default": {
    bad: [
      ["src/core/a.ts", "export default 1;"],
      ["src/core/a.ts", "export { x as default };"],
    ],
    good: [["src/core/a.ts", 'export const x = "export default";']],
  },
  "every export is named": {
    bad: [
      ["src/index.ts", 'export * from "./a.ts";'],
      ["src/index.ts", 'export type * as a from "./a.ts";'],
    ],
    good: [["src/index.ts", 'export { a } from "./a.ts"; export const b = 2 * 3;']],
  },
  "there are no enums and no namespaces": {
    bad: [
      ["src/core/a.ts", "export const enum Mode { A }"],
      ["src/core/a.ts", "namespace inner {}"],
    ],
    good: [["src/core/a.ts", "const namespace = 1; // enum Mode { A }"]],
  },
  "time comes only through Clock": {
    bad: [
      ["src/holder/a.ts", "const at = Date.now();"],
      ["src/stores/memory/index.ts", "const at = new Date();"],
      ["src/cli/main.ts", "setTimeout(() => {}, 1);"],
      ["src/testing/a.ts", `const text = \`\${performance.now()}\`;`],
      ["src/holder/a.ts", "wait(AbortSignal.timeout(5));"],
    ],
    good: [
      ["src/runtime/clock.ts", "const at = performance.now();"],
      ["src/holder/a.ts", "const at = clock.performance; // Date.now()"],
    ],
  },
  "chance comes only through Random": {
    bad: [
      ["src/core/backoff.ts", "const draw = Math.random();"],
      ["src/holder/a.ts", "const id = crypto.randomUUID();"],
    ],
    good: [["src/runtime/random.ts", "const draw = Math.random();"]],
  },
  "the process and the console are left to runtime and cli": {
    bad: [
      ["src/holder/a.ts", "process.exit(1);"],
      ["src/stores/memory/index.ts", 'console.log("x");'],
      ["src/core/a.ts", "globalThis.Date.now();"],
    ],
    good: [
      ["src/cli/main.ts", "console.log(process.argv);"],
      ["src/holder/a.ts", "this.process(); // console"],
    ],
  },
  "no test is singled out": {
    bad: [["test/a.test.ts", 'test.only("x", () => {});']],
    good: [["test/a.test.ts", 'test("x", () => list.only); // test.only']],
  },
  "comments are at most 100 columns wide": {
    bad: [
      ["src/core/a.ts", `// ${"x".repeat(98)}`],
      ["src/core/a.ts", `/**\n * ${"x".repeat(98)}\n */`],
    ],
    good: [
      ["src/core/a.ts", `// ${"x".repeat(97)}`],
      ["src/core/a.ts", `const x = "${"x".repeat(120)}";`],
    ],
  },
  "comments and test titles name the actor and use plain words": {
    bad: [
      ["src/core/a.ts", "// Whoever is woken late has waited in vain."],
      ["src/core/a.ts", "/** The holder is told of it. */"],
      ["src/core/a.ts", "/**\n * Nobody holds it for so long.\n */"],
      ["src/core/a.ts", "// What comes behind it, meanwhile."],
      ["test/a.test.ts", 'test("a client that is none is rejected", () => {});'],
      ["test/a.test.ts", 'describe.each(all)("who waits", () => {});'],
    ],
    good: [
      ["src/core/a.ts", "// The holder is notified. A waiter behind the wall."],
      ["src/core/a.ts", 'const message = "whoever";'],
      ["test/a.test.ts", 'test("a release from an expired session is a no-op", () => {});'],
    ],
  },
  "objects are written out, not spread to fit a line": {
    bad: [["src/core/a.ts", "const x = { ...{ a, b }, c };"]],
    good: [["src/core/a.ts", "const x = { ...rest, c };"]],
  },
  "nothing is left for later": {
    bad: [["src/core/a.ts", `// ${"TO"}DO: finish`]],
    good: [["src/core/a.ts", "// What to do next."]],
  },
};

describe("the scanner", () => {
  test("sees code, but not comments, strings, templates or regular expressions", () => {
    const source = `a /* { */ + "}{" + \`{\${b({ c: "}" })}{\` + /[/{]"/.test(d) / 2; // {`;
    const code = blankNonCode(source);
    expect(code).toHaveLength(source.length);
    expect(code.replace(/\s+/g, "")).toBe(`a+""+\`$\{b({c:""})}\`+//.test(d)/2;`);
  });

  test("finds every form of import", () => {
    const source = `import a from "a"; import "b"; export { c } from 'c'; await import(\`d\`); type E = import("e").E; // from "f"`;
    expect(findImports(source).map((found) => found.specifier)).toEqual(["a", "b", "c", "d", "e"]);
  });

  test("rejects text with unbalanced braces", () => {
    expect(() => findBlocks("function f() {")).toThrow("never closed");
    expect(() => findBlocks("}")).toThrow("unbalanced");
  });
});

const source = readFilesBelow("src");
const others = ["sim", "test", "scripts", "bench", "examples"].filter((name) =>
  existsSync(join(root, name)),
);
const files = [...source, ...others.flatMap(readFilesBelow)];

test("the scan finds files", () => {
  expect(source.filter((file) => !file.path.endsWith(".test.ts")).length).toBeGreaterThan(0);
  expect(files.length).toBeGreaterThan(source.length);
});

test("biome.jsonc contains the import rules of the table of layers", () => {
  const text = readFileSync(join(root, "biome.jsonc"), "utf8").replace(/^\s*\/\/.*$/gm, "");
  const { overrides } = JSON.parse(text) as { overrides: { linter: { rules: object } }[] };
  const written = overrides.filter(({ linter }) =>
    JSON.stringify(linter).includes("noRestrictedImports"),
  );
  expect(written, "run: npm run format").toEqual(biomeOverrides());
});

test("every rule has planted samples", () => {
  expect(Object.keys(planted).sort()).toEqual(rules.map((rule) => rule.name).sort());
});

describe.each(rules)("$name", (rule) => {
  const findFaults = (path: string, text: string): string[] =>
    rule.appliesTo(path) ? rule.findFaults({ path, text }) : [];

  test("the rule finds its planted violations and nothing else", () => {
    const samples = planted[rule.name] ?? { bad: [], good: [] };
    expect(samples.bad.length).toBeGreaterThan(0);
    for (const [path, text] of samples.bad) {
      expect(findFaults(path, text), `${path}: ${text.slice(0, 80)}`).not.toEqual([]);
    }
    for (const [path, text] of samples.good) {
      expect(findFaults(path, text), `${path}: ${text.slice(0, 80)}`).toEqual([]);
    }
  });

  test("every file follows the rule", () => {
    expect(files.flatMap((file) => findFaults(file.path, file.text))).toEqual([]);
  });
});
