// The types that ship: of the compiler's declarations only those that can be reached from a public name, with their comments,
// which editors show. The compiler prints every declaration from the first column on; that is what this reads.
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, posix } from "node:path";

/**
 * @typedef {{ comment: string, text: string, names: string[], isExported: boolean }} Declaration
 * @typedef {{ from: string, isExport: boolean, isType: boolean, names: { name: string, as: string, isType: boolean }[] }} Link
 */

/** Copies what `exported` ("./dist/index.d.ts") needs from the compiled folder `from` into the folder `to`. */
export function shipDeclarations({ from, to, exported }) {
  const files = new Map();
  const open = (path) => {
    const known = files.get(path);
    if (known !== undefined) return known;
    const file = { path, ...parse(readFileSync(join(from, path), "utf8"), path), kept: new Set() };
    files.set(path, file);
    return file;
  };
  for (const path of exported) keepAll(open(path.replace(/^\.\/dist\//, "")), open);
  for (const file of files.values()) {
    if (file.kept.size === 0) continue;
    mkdirSync(dirname(join(to, file.path)), { recursive: true });
    writeFileSync(join(to, file.path), print(file));
  }
}

function parse(source, path) {
  /** @type {Declaration[]} */
  const declarations = [];
  /** @type {Link[]} */
  const links = [];
  for (const { comment, text } of statements(source)) {
    const link = linkOf(text, path);
    if (link !== undefined) links.push(link);
    else if (text !== "export {};") declarations.push(declarationOf(comment, text, path));
  }
  return { declarations, links };
}

/** A statement begins at the first column with one of these words. A comment before anything else is inside of one. */
const BEGINNING = /^(?:import|export|declare|interface|type|class|abstract|const|function) /;

function statements(source) {
  const found = [];
  let pending = "";
  let isInComment = false;
  for (const line of source.split("\n")) {
    if (isInComment || line.startsWith("/**")) {
      pending += `${line}\n`;
      isInComment = !line.includes("*/");
    } else if (BEGINNING.test(line)) {
      found.push({ comment: pending, text: line });
      pending = "";
    } else if (line !== "" && !/^(?:\/\/|#!)/.test(line)) {
      const statement = found.at(-1);
      statement.text += `\n${pending}${line}`;
      pending = "";
    }
  }
  return found;
}

function linkOf(text, path) {
  const whole = /^import type \* as (\w+) from "([^"]+)";$/.exec(text);
  if (whole !== null) {
    const [, as = "", from = ""] = whole;
    return { from, isExport: false, isType: true, names: [{ name: "*", as, isType: false }] };
  }
  const match = /^(import|export)( type)? \{([^}]*)\} from "([^"]+)";$/.exec(
    text.replace(/\s+/g, " "),
  );
  if (match === null) {
    if (/^(import|export \*)/.test(text)) throw new Error(`${path}: cannot read "${text}".`);
    return undefined;
  }
  const [, kind, type, list = "", from = ""] = match;
  const names = list
    .split(",")
    .map((each) => each.trim())
    .filter((each) => each !== "")
    .map((each) => {
      const [name = "", as = name] = each.replace(/^type /, "").split(" as ");
      return { name, as, isType: each.startsWith("type ") };
    });
  return { from, isExport: kind === "export", isType: type !== undefined, names };
}

function declarationOf(comment, text, path) {
  const listed = /^export (?:type )?\{([^}]*)\};$/.exec(text);
  if (listed !== null) {
    const names = listed[1].match(/\w+/g) ?? [];
    return { comment, text, names, isExported: true };
  }
  const named =
    /^(?:export )?(?:declare )?(?:abstract )?(?:class|interface|type|function|const|let|enum|namespace) (\w+)/.exec(
      text,
    );
  if (named === null) throw new Error(`${path}: cannot read "${text.split("\n")[0]}".`);
  // What a class promises to implement may be internal; what it has is all there.
  const plain = text.replace(/^(.* class \w+.*) implements [^{\n]+ \{/, "$1 {");
  return { comment, text: plain, names: [named[1]], isExported: text.startsWith("export ") };
}

/** All that an entry exports. */
function keepAll(file, open) {
  for (const link of file.links.filter(({ isExport }) => isExport))
    for (const { as } of link.names) keep(file, as, open);
  for (const { names, isExported } of file.declarations)
    if (isExported) for (const name of names) keep(file, name, open);
}

/** Keeps what this file calls `name`, and whatever that needs, here and elsewhere. */
function keep(file, name, open) {
  if (file.kept.has(name)) return;
  const declared = file.declarations.filter(({ names }) => names.includes(name));
  const link = file.links.find(({ names }) => names.some(({ as }) => as === name));
  if (declared.length === 0 && link === undefined) return;
  file.kept.add(name);
  if (link?.from.startsWith(".")) {
    const wanted = link.names.find(({ as }) => as === name);
    const target = open(resolve(file.path, link.from));
    if (wanted.name === "*") keepAll(target, open);
    else keep(target, wanted.name, open);
  }
  for (const { text } of declared) {
    const code = text.replace(/\/\*[\s\S]*?\*\//g, "");
    // More than is needed, where a member has the name of a type; never less.
    for (const [word] of code.matchAll(/[A-Za-z_$][\w$]*/g)) keep(file, word, open);
    for (const [, from, member] of code.matchAll(/import\("(\.[^"]+)"\)\.(\w+)/g))
      keep(open(resolve(file.path, from)), member, open);
  }
}

function resolve(path, from) {
  return posix.join(posix.dirname(path), from.replace(/\.[jt]s$/, ".d.ts"));
}

function print({ links, declarations, kept }) {
  const lines = links.flatMap(({ from, isExport, isType, names }) => {
    const list = names
      .filter(({ as }) => kept.has(as))
      .map(
        ({ name, as, isType: alone }) =>
          `${alone ? "type " : ""}${name}${name === as ? "" : ` as ${as}`}`,
      );
    if (names[0]?.name === "*")
      return kept.has(names[0].as) ? `import type * as ${names[0].as} from "${from}";` : [];
    const words = `${isExport ? "export" : "import"}${isType ? " type" : ""}`;
    return list.length === 0 ? [] : `${words} { ${list.join(", ")} } from "${from}";`;
  });
  const needed = declarations.filter(({ names }) => names.some((name) => kept.has(name)));
  const text = [...lines, ...needed.map(({ comment, text }) => `${comment}${text}`)].join("\n");
  return `${text.replace(/^(?: {4})+/gm, (indent) => "\t".repeat(indent.length / 4))}\n`;
}
