// The rules that test/repo/tidy.test.ts enforces. Each rule is a function from one file to its
// violations. layers.ts has the table of imports.
import { posix } from "node:path";
import { CLIENT_OF, DIVIDED, LAYERS, type Layer } from "./layers.ts";
import { blankNonCode, findBlocks, findImports, lineAt } from "./source-text.ts";

/** One file: `path` is relative to the project, with forward slashes. */
export interface SourceFile {
  readonly path: string;
  readonly text: string;
}

export interface Rule {
  /** What the rule demands, as a sentence. */
  readonly name: string;
  readonly appliesTo: (path: string) => boolean;
  /** One line per violation; empty if the file follows the rule. */
  readonly findFaults: (file: SourceFile) => string[];
}

/** Every exception to a rule, with its reason. Exceptions are declared only here. */
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

/** Client libraries, each with the only client or scheduler adapter that may import it. */
const clientLibraries: Readonly<Record<string, string>> = {
  "better-sqlite3": "sqlite",
  "@nestjs/common": "nestjs",
  "@nestjs/schedule": "nestjs",
};

/** The path as the table of layers names it: relative to src/, or starting with sim/. */
function toTablePath(path: string): string {
  return path.startsWith("src/") ? path.slice("src/".length) : path;
}

/** The store, guard, client or adapter that a file belongs to. */
function findPart(own: string): string | undefined {
  const [folder = "", part, file] = own.split("/");
  return DIVIDED.includes(folder) && file !== undefined && part !== "shared" ? part : undefined;
}

function listAllowed(own: string, layer: Layer): string[] {
  const folder = own.includes("/") ? own.slice(0, own.indexOf("/")) : "";
  const part = findPart(own);
  if (part === undefined) return [...layer.may];
  const client =
    folder === "stores" || folder === "guards" ? [`clients/${CLIENT_OF[part] ?? part}/`] : [];
  return [...layer.may, `${folder}/${part}/`, ...client];
}

function importFaults({ path, text }: SourceFile): string[] {
  const own = toTablePath(path);
  const folder = own.includes("/") ? own.slice(0, own.indexOf("/")) : "";
  const layer = LAYERS[folder];
  if (layer === undefined) return [`${path}: src/${folder} is not in the table of layers`];
  const may = listAllowed(own, layer);
  const covers = (allowed: string, target: string): boolean =>
    allowed.endsWith(".ts") ? target === allowed : target.startsWith(allowed);
  const faults: string[] = [];
  for (const { specifier, line } of findImports(text)) {
    if (isExcepted(path, specifier)) continue;
    const where = `${path}:${line}: imports ${specifier}`;
    if (specifier.startsWith(".")) {
      const target = toTablePath(posix.join(posix.dirname(path), specifier));
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
      clientLibraries[specifier] !== findPart(own)
    ) {
      faults.push(`${where}, a package: only its own client or scheduler adapter may`);
    }
  }
  return faults;
}

/** A rule against a pattern in code. Comments and strings are not searched. */
function forbidPattern(name: string, pattern: RegExp, appliesTo: Rule["appliesTo"]): Rule {
  return {
    name,
    appliesTo,
    findFaults: ({ path, text }) =>
      [...blankNonCode(text).matchAll(pattern)]
        .filter((match) => !isExcepted(path, match[0].trim()))
        .map((match) => `${path}:${lineAt(text, match.index)}: ${match[0].trim()}`),
  };
}

const isTest = (path: string): boolean => /\.test(-d)?\.ts$/.test(path);
const isSource = (path: string): boolean =>
  (path.startsWith("src/") || isSimulated(path)) && !isTest(path);
/** The simulator, without the parts that use the real clock and process. */
const isSimulated = (path: string): boolean =>
  path.startsWith("sim/") && !/^sim\/(cli|host|mutants|test)\//.test(path);
const everywhere = (): boolean => true;
const inLibrary = (path: string): boolean =>
  isSource(path) && !path.startsWith("src/runtime/") && !path.startsWith("src/cli/");
// Suites and tests are lists of cases. For them, the functions inside a function do not count.
const isListOfCases = (path: string): boolean => !isSource(path) || path.startsWith("src/testing/");

export const fileLinesMax = 400;
export const functionLinesMax = 70;

export const rules: readonly Rule[] = [
  { name: "imports follow the table of layers", appliesTo: isSource, findFaults: importFaults },
  {
    name: "a file has at most 400 lines",
    appliesTo: everywhere,
    findFaults: ({ path, text }) => {
      const lines = text.trimEnd().split("\n").length;
      return lines > fileLinesMax ? [`${path}: ${lines} lines`] : [];
    },
  },
  {
    name: "a function has at most 70 lines",
    appliesTo: (path) => path.endsWith(".ts"),
    findFaults: ({ path, text }) =>
      findBlocks(text)
        .map((block) => ({ ...block, counted: isListOfCases(path) ? block.ownLines : block.lines }))
        .filter((block) => block.counted > functionLinesMax)
        .map((block) => `${path}:${block.line}: a block of ${block.counted} lines`),
  },
  {
    name: "a file opens with a comment",
    appliesTo: everywhere,
    findFaults: ({ path, text }) =>
      /^(#!.*\n)?(\/\/|\/\*)/.test(text) ? [] : [`${path}:1: no opening comment`],
  },
  forbidPattern(
    "nothing is exported by default",
    /\bexport\s+default\b|\bas\s+default\b/g,
    isSource,
  ),
  forbidPattern("every export is named", /\bexport\s+(type\s+)?\*/g, isSource),
  forbidPattern(
    "there are no enums and no namespaces",
    /^\s*(export\s+)?(declare\s+)?((const\s+)?enum\s+\w+\s*\{|(namespace|module)\s+[\w.]+\s*\{)/gm,
    isSource,
  ),
  forbidPattern(
    "time comes only through Clock",
    /(?<![.\w$#])(Date(?=\s*\.\s*now\b|\(\))|performance|setTimeout|setInterval|setImmediate)\b(?!\s*\??:)|\bAbortSignal\s*\.\s*timeout\b|\bAtomics\s*\.\s*wait\w*/g,
    (path) => isSource(path) && !path.startsWith("src/runtime/"),
  ),
  forbidPattern(
    "chance comes only through Random",
    /\bMath\s*\.\s*random\b|(?<![.\w$#])crypto\b(?!\s*\??:)/g,
    (path) => isSource(path) && !path.startsWith("src/runtime/"),
  ),
  forbidPattern(
    "the process and the console are left to runtime and cli",
    /(?<![.\w$#])(process|console|globalThis)\b(?!\s*\??:)/g,
    inLibrary,
  ),
  forbidPattern(
    "no test is singled out",
    /\b(describe|test|it|suite)(\.\w+)*\.only\b/g,
    everywhere,
  ),
  {
    name: "nothing is left for later",
    appliesTo: everywhere,
    findFaults: ({ path, text }) =>
      [...text.matchAll(new RegExp(`\\b(${"TO"}DO|${"FIX"}ME|${"X".repeat(3)})\\b`, "g"))].map(
        (match) => `${path}:${lineAt(text, match.index)}: ${match[0]}`,
      ),
  },
];
