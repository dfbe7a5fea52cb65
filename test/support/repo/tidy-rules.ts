// The rules that test/repo/tidy.test.ts enforces, each a function from one file to its faults. The import table is
// that of the design: core imports nothing, stores and guards import core, the holder knows only the store
// contract, and library code never reaches into sim, testing or cli.
import { posix } from "node:path";
import { blocksOf, codeOnly, importsOf, lineAt } from "./source-text.ts";

/** One file: `path` is relative to the project, with forward slashes. */
export interface SourceFile {
  readonly path: string;
  readonly text: string;
}

export interface Rule {
  /** A sentence: what holds. */
  readonly name: string;
  readonly appliesTo: (path: string) => boolean;
  /** One line per fault; empty when the file is tidy. */
  readonly faultsOf: (file: SourceFile) => string[];
}

/** Every exception to a rule, with its reason. There is no other place for one. */
const exceptions: readonly { path: string; allows: string; reason: string }[] = [
  {
    path: "src/async/context.ts",
    allows: "node:async_hooks",
    reason: "the token travels in the async context, and only AsyncLocalStorage can carry it",
  },
  {
    path: "src/clients/etcd/names.ts",
    allows: "node:crypto",
    reason: "a digest that makes an etcd lease id of a session's name: no chance in it",
  },
  {
    path: "src/clients/redis/digest.ts",
    allows: "node:crypto",
    reason: "Redis calls a script by its SHA-1; nothing is drawn",
  },
  {
    path: "src/guards/redis/script.ts",
    allows: "node:crypto",
    reason: "Redis calls a script by its SHA-1; nothing is drawn",
  },
  {
    path: "src/guards/proof/signed.ts",
    allows: "node:crypto",
    reason: "Ed25519 signatures; nothing is drawn",
  },
  {
    path: "src/guards/proof/signed.ts",
    allows: "../runtime/system.ts",
    reason: "the user makes a verifier without connect(), which hands out the clock elsewhere",
  },
  {
    path: "src/guards/file/index.ts",
    allows: "../runtime/system.ts",
    reason: "as above",
  },
  ...["src/guards/etcd/index.ts", "src/guards/zookeeper/index.ts"].map((path) => ({
    path,
    allows: "../runtime/system.ts",
    reason: "as above",
  })),
  {
    path: "src/guards/http/index.ts",
    allows: "../runtime/system.ts",
    reason: "a failure that no caller sees becomes a warning of the process",
  },
  ...[
    ...["src/clients/redis/wire.ts", "src/clients/postgres/open-link.ts"],
    ...["src/clients/sqlite/driver.ts", "src/guards/redis/client.ts"],
  ].map((path) => ({
    path,
    allows: "../../runtime/libraries.ts",
    reason: "which version of a library the application has is a matter of the process",
  })),
  {
    path: "src/guards/file/ledger.ts",
    allows: "../../stores/sqlite/driver.ts",
    reason: "the same two SQLite libraries, loaded in the same way; nothing of the store itself",
  },
  {
    path: "src/guards/file/ledger.ts",
    allows: "../../stores/sqlite/place.ts",
    reason: "one check for every file that is found by its path; nothing of the store itself",
  },
  ...["src/guards/file/index.ts", "src/guards/sqlite/index.ts"].map((path) => ({
    path,
    allows: "../stores/sqlite/place.ts",
    reason: "as above",
  })),
];

function isExcepted(path: string, what: string): boolean {
  return exceptions.some((exception) => exception.path === path && exception.allows === what);
}

/** Who may import what: paths below src/ as prefixes or whole files; `node:` stands for every built-in. */
interface Layer {
  readonly may: readonly string[];
  readonly never?: readonly string[];
}

const clockAndChance = ["node:timers", "node:perf_hooks", "node:crypto", "node:process"];
const notLibrary = ["sim/", "testing/", "cli/"];
const layers: Readonly<Record<string, Layer>> = {
  core: { may: ["core/"] },
  runtime: { may: ["core/", "runtime/", "node:"] },
  stores: { may: ["core/", "stores/store.ts", "stores/shared/", "node:"], never: clockAndChance },
  guards: { may: ["core/", "guards/guard.ts", "guards/shared/", "node:"], never: clockAndChance },
  holder: { may: ["core/", "stores/store.ts", "holder/"] },
  election: { may: ["core/", "stores/store.ts", "holder/", "election/"] },
  once: { may: ["core/", "stores/store.ts", "holder/", "once/"] },
  adapters: {
    may: [
      ...["core/", "stores/store.ts", "holder/", "once/"],
      ...["runtime/system.ts", "runtime/libraries.ts"],
      ...["connect.ts", "tenure.ts", "adapters/skipped.ts"],
    ],
  },
  testing: {
    may: ["core/", "stores/store.ts", "guards/guard.ts", "testing/", "node:assert"],
  },
  sim: { may: ["", "node:"], never: ["cli/", "runtime/", ...clockAndChance] },
  cli: { may: ["", "node:"], never: ["node:timers", "node:perf_hooks", "node:crypto"] },
  // Files directly in src/ (index.ts, connect.ts): they wire the parts together.
  "": { may: ["", "node:"], never: [...notLibrary, ...clockAndChance] },
};

/** Guards that speak to their backend themselves use the wire of the store of the same name: there is no second client. */
const guardsOnStoreWire = ["etcd", "zookeeper"];

/** Client libraries, each only in the store, guard or adapter that speaks to it. */
const clientLibraries: Readonly<Record<string, string>> = {
  "better-sqlite3": "sqlite",
  "@nestjs/common": "nestjs",
  "@nestjs/schedule": "nestjs",
};

function importFaults({ path, text }: SourceFile): string[] {
  const own = path.slice("src/".length);
  const folder = own.includes("/") ? own.slice(0, own.indexOf("/")) : "";
  const layer = layers[folder];
  if (layer === undefined) return [`${path}: src/${folder} is not in the import table`];
  // stores/<name>.ts and stores/<name>/ are one part; so are those of a guard or an adapter.
  const part = /^(?:stores|guards|adapters)\/([^/.]+)/.exec(own)?.[1];
  const wire = folder === "guards" && guardsOnStoreWire.includes(part ?? "");
  const may =
    part === undefined
      ? layer.may
      : [
          ...[...layer.may, `${folder}/${part}.ts`, `${folder}/${part}/`],
          ...(wire ? [`stores/${part}/`] : []),
        ];
  const covers = (allowed: string, target: string): boolean =>
    allowed.endsWith(".ts") ? target === allowed : target.startsWith(allowed);
  const faults: string[] = [];
  for (const { specifier, line } of importsOf(text)) {
    if (isExcepted(path, specifier)) continue;
    const where = `${path}:${line}: imports ${specifier}`;
    if (specifier.startsWith(".")) {
      const target = posix.join(posix.dirname(own), specifier);
      if (!target.endsWith(".ts")) faults.push(`${where}, which does not end in .ts`);
      const allowed = may.some((prefix) => covers(prefix, target));
      const banned = layer.never?.some((prefix) => covers(prefix, target)) ?? false;
      if (!allowed || banned) faults.push(`${where}, which ${folder || "src"} may not`);
    } else if (specifier.startsWith("node:")) {
      const allowed = may.some(
        (prefix) => prefix.startsWith("node:") && specifier.startsWith(prefix),
      );
      const banned = layer.never?.some((prefix) => specifier.startsWith(prefix)) ?? false;
      if (!allowed || banned) faults.push(`${where}, which ${folder || "src"} may not`);
    } else if (part === undefined || clientLibraries[specifier] !== part) {
      faults.push(
        `${where}, a package: only a store, guard or adapter may, its own client library`,
      );
    }
  }
  return faults;
}

/** A rule that looks for one pattern in code; comments and strings are not code. */
function noCode(name: string, pattern: RegExp, appliesTo: Rule["appliesTo"]): Rule {
  return {
    name,
    appliesTo,
    faultsOf: ({ path, text }) =>
      [...codeOnly(text).matchAll(pattern)].map(
        (match) => `${path}:${lineAt(text, match.index)}: ${match[0].trim()}`,
      ),
  };
}

const isTest = (path: string): boolean => /\.test(-d)?\.ts$/.test(path);
const isSource = (path: string): boolean => path.startsWith("src/") && !isTest(path);
const everywhere = (): boolean => true;
const inLibrary = (path: string): boolean =>
  isSource(path) && !path.startsWith("src/runtime/") && !path.startsWith("src/cli/");
// Suites and tests are lists of cases: there a function's own lines count, without the cases inside.
const isListOfCases = (path: string): boolean => !isSource(path) || path.startsWith("src/testing/");

export const fileLinesMax = 400;
export const functionLinesMax = 70;

export const rules: readonly Rule[] = [
  { name: "imports follow the table of layers", appliesTo: isSource, faultsOf: importFaults },
  {
    name: "a file has at most 400 lines",
    appliesTo: everywhere,
    faultsOf: ({ path, text }) => {
      const lines = text.trimEnd().split("\n").length;
      return lines > fileLinesMax ? [`${path}: ${lines} lines`] : [];
    },
  },
  {
    name: "a function has at most 70 lines",
    appliesTo: (path) => path.endsWith(".ts"),
    faultsOf: ({ path, text }) =>
      blocksOf(text)
        .map((block) => ({ ...block, counted: isListOfCases(path) ? block.ownLines : block.lines }))
        .filter((block) => block.counted > functionLinesMax)
        .map((block) => `${path}:${block.line}: a block of ${block.counted} lines`),
  },
  {
    name: "a file opens with a comment",
    appliesTo: everywhere,
    faultsOf: ({ path, text }) =>
      /^(#!.*\n)?(\/\/|\/\*)/.test(text) ? [] : [`${path}:1: no opening comment`],
  },
  noCode("nothing is exported by default", /\bexport\s+default\b|\bas\s+default\b/g, isSource),
  noCode("every export is named", /\bexport\s+(type\s+)?\*/g, isSource),
  noCode(
    "there are no enums and no namespaces",
    /^\s*(export\s+)?(declare\s+)?((const\s+)?enum\s+\w+\s*\{|(namespace|module)\s+[\w.]+\s*\{)/gm,
    isSource,
  ),
  noCode(
    "time comes only through Clock",
    /(?<![.\w$#])(Date(?=\s*\.\s*now\b|\(\))|performance|setTimeout|setInterval|setImmediate)\b(?!\s*\??:)|\bAbortSignal\s*\.\s*timeout\b|\bAtomics\s*\.\s*wait\w*/g,
    (path) => isSource(path) && !path.startsWith("src/runtime/"),
  ),
  noCode(
    "chance comes only through Random",
    /\bMath\s*\.\s*random\b|(?<![.\w$#])crypto\b(?!\s*\??:)/g,
    (path) => isSource(path) && !path.startsWith("src/runtime/"),
  ),
  noCode(
    "the process and the console are left to runtime and cli",
    /(?<![.\w$#])(process|console|globalThis)\b(?!\s*\??:)/g,
    inLibrary,
  ),
  noCode("no test is singled out", /\b(describe|test|it|suite)(\.\w+)*\.only\b/g, everywhere),
  {
    name: "nothing is left for later",
    appliesTo: everywhere,
    faultsOf: ({ path, text }) =>
      [...text.matchAll(new RegExp(`\\b(${"TO"}DO|${"FIX"}ME|${"X".repeat(3)})\\b`, "g"))].map(
        (match) => `${path}:${lineAt(text, match.index)}: ${match[0]}`,
      ),
  },
];
