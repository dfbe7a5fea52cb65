// Goal: every TypeScript snippet in README, CONTRIBUTING and docs works. Method: the snippets are
// compiled together, and each is run in a folder and a process of its own, against the built
// package under its public name.

import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { loadDriver } from "../../src/clients/sqlite/driver.ts";
import { startEtcd } from "../servers/etcd.ts";
import { startPostgres } from "../servers/postgres.ts";
import { startRedis } from "../servers/redis.ts";
import { useServer } from "../servers/use-server.ts";
import { startZooKeeper } from "../servers/zookeeper.ts";

const run = promisify(execFile);
const postgres = useServer(startPostgres);
const redis = useServer(startRedis);
const etcd = useServer(startEtcd);
const zookeeper = useServer(startZooKeeper);
const root = fileURLToPath(new URL("../..", import.meta.url));
// Inside the package, because only there its own name resolves to it.
const folder = mkdtempSync(join(root, ".docs-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Snippet {
  readonly page: string;
  readonly line: number;
  readonly code: string;
}

function findSnippets(page: string): Snippet[] {
  const text = readFileSync(join(root, page), "utf8");
  return [...text.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map((match) => ({
    page,
    line: text.slice(0, match.index).split("\n").length,
    code: match[1] ?? "",
  }));
}

const pages = [
  "README.md",
  "CONTRIBUTING.md",
  ...readdirSync(join(root, "docs"), { recursive: true, encoding: "utf8" })
    .filter((name) => name.endsWith(".md"))
    .map((name) => join("docs", name)),
];
const snippets = pages.flatMap(findSnippets);
const files = snippets.map((snippet, index) => {
  const workFolder = join(folder, `snippet-${index}`);
  mkdirSync(workFolder);
  const isTest = snippet.code.includes('from "vitest"');
  const file = join(workFolder, isTest ? "snippet.test.ts" : "snippet.ts");
  writeFileSync(file, `${snippet.code}\nexport {};\n`);
  // Keeps vitest from finding the project's own configuration in a parent folder.
  if (isTest) writeFileSync(join(workFolder, "vitest.config.mjs"), "export default {};\n");
  return { ...snippet, workFolder, file, isTest };
});

let compileErrors: string | undefined;

// Compiled once, to JavaScript: a process that compiles its snippet at start needs a second more.
beforeAll(async () => {
  const config = {
    extends: "../tsconfig.json",
    compilerOptions: {
      allowImportingTsExtensions: false,
      isolatedDeclarations: false,
      declaration: false,
      noEmit: false,
      noUnusedLocals: false,
      // The NestJS snippets use decorators.
      experimentalDecorators: true,
    },
    include: ["**/*.ts"],
    exclude: [],
  };
  writeFileSync(join(folder, "tsconfig.json"), JSON.stringify(config));
  const tsc = join(root, "node_modules", "typescript", "bin", "tsc");
  const { stdout } = await run(process.execPath, [tsc, "-p", folder]).catch(
    (error: unknown) => error as { stdout: string },
  );
  compileErrors = stdout;
}, 120_000);

describe("the documentation", () => {
  test("has snippets on its main pages", () => {
    for (const page of ["README.md", "CONTRIBUTING.md", join("docs", "guarantees.md")]) {
      expect(snippets.some((snippet) => snippet.page === page)).toBe(true);
    }
  });

  test("links only to files that exist", () => {
    const broken = pages.flatMap((page) => {
      const text = readFileSync(join(root, page), "utf8");
      const targets = [...text.matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)].map(
        (match) => match[1] ?? "",
      );
      const local = targets.filter((target) => !/^[a-z]+:/.test(target));
      return local
        .filter((target) => !exists(join(root, page, "..", target)))
        .map((target) => `${page}: ${target}`);
    });
    expect(broken).toEqual([]);
  });

  test("type-checks", () => {
    expect(compileErrors).toBe("");
  });

  test("combines no memory store with a guard that outlives the process", () => {
    const combined = files.filter(
      ({ code }) => code.includes('"memory:') && LASTING_GUARD.test(code),
    );
    expect(combined.map(({ page, line }) => `${page}, line ${line}`)).toEqual([]);
  });

  for (const snippet of files) {
    test(`runs: ${snippet.page}, line ${snippet.line}`, async (context) => {
      if (snippet.code.includes('"better-sqlite3"') && !(await hasBetterSqlite3())) {
        return context.skip("better-sqlite3 is not built for this Node, which has node:sqlite");
      }
      const program = snippet.isTest ? snippet.file : snippet.file.replace(/\.ts$/, ".js");
      writeFileSync(program, readFileSync(program, "utf8").replace(ADDRESS, realAddress));
      const vitest = join(root, "node_modules", "vitest", "vitest.mjs");
      const args = snippet.isTest
        ? [vitest, "run", "--root", snippet.workFolder, "--reporter", "dot"]
        : ["--disable-warning=TenureWarning", program];
      // A reader may run an example more than once, with the tokens that a lasting guard has kept.
      const runs = LASTING_GUARD.test(snippet.code) ? 2 : 1;
      for (let count = 0; count < runs; count += 1) {
        const { stderr } = await run(process.execPath, args, { cwd: snippet.workFolder });
        expect(stderr.replace(SLOW_MACHINE, "")).toBe("");
      }
    });
  }
});

/** The scheduler of NestJS prints this if the machine is too busy to run a job on time. */
const SLOW_MACHINE = /^\[Cron\] Missed execution deadline .*\n/gm;

/** A guard that keeps its tokens in a file or on a server. */
const LASTING_GUARD = /"tenure\/guards\/(sqlite|postgres|redis|etcd|zookeeper|file)"/;

/** An address in a snippet, up to a `?`. The address of a test server replaces it. */
const ADDRESS = /(postgres|redis|etcd|zookeeper):\/\/[^"?\s]+/g;

function realAddress(_address: string, scheme: string): string {
  const servers: Record<string, () => { readonly url: string }> = {
    postgres,
    redis,
    etcd,
    zookeeper,
  };
  return servers[scheme]?.().url ?? "";
}

async function hasBetterSqlite3(): Promise<boolean> {
  return loadDriver("better-sqlite3").then(
    () => true,
    () => false,
  );
}

function exists(path: string): boolean {
  try {
    return readFileSync(path).length >= 0;
  } catch (error) {
    return (error as { code?: string }).code === "EISDIR";
  }
}
