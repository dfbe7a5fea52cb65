// The rules that test/repo/tidy.test.ts enforces, each a function from one file to its faults. The
// import table is that of the design: core imports nothing, stores and guards import core, the
// holder knows only the store contract, and library code never reaches into sim, testing or cli.
import { posix } from "node:path";
import { CLIENT_OF, DIVIDED, LAYERS, type Layer } from "./layers.ts";
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
    path: "src/clients/shared/libraries.ts",
    allows: "process",
    reason: "the libraries that an application has installed are found from its working folder",
  },
  {
    path: "src/clients/etcd/names.ts",
    allows: "node:crypto",
    reason: "a digest turns a session's name into an etcd lease id; nothing random",
  },
  ...["src/clients/redis/digest.ts", "src/guards/redis/script.ts"].map((path) => ({
    path,
    allows: "node:crypto",
    reason: "Redis identifies a script by its SHA-1; nothing random",
  })),
  {
    path: "src/guards/proof/signed.ts",
    allows: "node:crypto",
    reason: "Ed25519 signatures; nothing random",
  },
  ...["proof/signed", "file/index", "etcd/index", "zookeeper/index", "http/index"].map((name) => ({
    path: `src/guards/${name}.ts`,
    allows: "../../runtime/system.ts",
    reason: "users create guards and verifiers without connect(), which passes the clock elsewhere",
  })),
];

function isExcepted(path: string, what: string): boolean {
  return exceptions.some((exception) => exception.path === path && exception.allows === what);
}

/** Client libraries, each only in the client or scheduler adapter that uses it. */
const clientLibraries: Readonly<Record<string, string>> = {
  "better-sqlite3": "sqlite",
  "@nestjs/common": "nestjs",
  "@nestjs/schedule": "nestjs",
};

/** A path as the table of layers names it: below src/, or beginning with sim/. */
function tablePath(path: string): string {
  return path.startsWith("src/") ? path.slice("src/".length) : path;
}

/** The store, guard, client or adapter that a file belongs to. */
function partOf(own: string): string | undefined {
  const [folder = "", part, file] = own.split("/");
  return DIVIDED.includes(folder) && file !== undefined && part !== "shared" ? part : undefined;
}

function allowedFor(own: string, layer: Layer): string[] {
  const folder = own.includes("/") ? own.slice(0, own.indexOf("/")) : "";
  const part = partOf(own);
  if (part === undefined) return [...layer.may];
  const client =
    folder === "stores" || folder === "guards" ? [`clients/${CLIENT_OF[part] ?? part}/`] : [];
  return [...layer.may, `${folder}/${part}/`, ...client];
}

function importFaults({ path, text }: SourceFile): string[] {
  const own = tablePath(path);
  const folder = own.includes("/") ? own.slice(0, own.indexOf("/")) : "";
  const layer = LAYERS[folder];
  if (layer === undefined) return [`${path}: src/${folder} is not in the table of layers`];
  const may = allowedFor(own, layer);
  const covers = (allowed: string, target: string): boolean =>
    allowed.endsWith(".ts") ? target === allowed : target.startsWith(allowed);
  const faults: string[] = [];
  for (const { specifier, line } of importsOf(text)) {
    if (isExcepted(path, specifier)) continue;
    const where = `${path}:${line}: imports ${specifier}`;
    if (specifier.startsWith(".")) {
      const target = tablePath(posix.join(posix.dirname(path), specifier));
      if (!target.endsWith(".ts")) faults.push(`${where}, which does not end in .ts`);
      const allowed = may.some((prefix) => covers(prefix, target));
      const outside = folder !== "sim" && target.startsWith("sim/");
      const banned = outside || (layer.never?.some((prefix) => covers(prefix, target)) ?? false);
      if (!allowed || banned) faults.push(`${where}. ${layer.advice}`);
    } else if (specifier.startsWith("node:")) {
      const allowed = may.some(
        (prefix) => prefix.startsWith("node:") && specifier.startsWith(prefix),
      );
      const banned = layer.never?.some((prefix) => specifier.startsWith(prefix)) ?? false;
      if (!allowed || banned) faults.push(`${where}. ${layer.advice}`);
    } else if (
      clientLibraries[specifier] === undefined ||
      clientLibraries[specifier] !== partOf(own)
    ) {
      faults.push(`${where}, a package: only its own client or scheduler adapter may`);
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
      [...codeOnly(text).matchAll(pattern)]
        .filter((match) => !isExcepted(path, match[0].trim()))
        .map((match) => `${path}:${lineAt(text, match.index)}: ${match[0].trim()}`),
  };
}

const isTest = (path: string): boolean => /\.test(-d)?\.ts$/.test(path);
const isSource = (path: string): boolean =>
  (path.startsWith("src/") || isSimulated(path)) && !isTest(path);
/**
 * The simulator without the parts that use the real process: they run it, test it or close the real
 * world.
 */
const isSimulated = (path: string): boolean =>
  path.startsWith("sim/") && !/^sim\/(cli|host|mutants|test)\//.test(path);
const everywhere = (): boolean => true;
const inLibrary = (path: string): boolean =>
  isSource(path) && !path.startsWith("src/runtime/") && !path.startsWith("src/cli/");
// Suites and tests are lists of cases: there a function's own lines count, without the cases
// inside.
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
