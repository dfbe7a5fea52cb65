// Reads TypeScript source as text, for the tidy rules. It blanks comments and the contents of
// strings, lists imports, and measures brace blocks. It is not a parser: it recognises strings,
// templates and regular expressions only to skip the braces and words inside them.

/**
 * The text with comments, string contents and regular expressions replaced by spaces. Offsets and
 * lines do not change.
 */
export function blankNonCode(source: string): string {
  const out = source.split("");
  // One entry per open template literal: the number of open braces inside its current ${ }.
  const templates: number[] = [];
  let at = 0;
  const blankTo = (end: number): void => {
    for (; at < Math.min(end, out.length); at += 1) if (out[at] !== "\n") out[at] = " ";
  };
  const template = (): void => {
    const end = endOfTemplatePart(source, at);
    blankTo(end);
    if (source.startsWith("${", end)) {
      templates.push(0);
      at = end + 2;
    } else at = end + 1;
  };
  while (at < source.length) {
    const char = source[at];
    const depth = templates.at(-1);
    if (source.startsWith("//", at)) blankTo(endOr(source, source.indexOf("\n", at)));
    else if (source.startsWith("/*", at)) blankTo(endOr(source, source.indexOf("*/", at), 2));
    else if (char === '"' || char === "'") {
      const end = endOfString(source, at);
      at += 1;
      blankTo(end);
      at = end + 1;
    } else if (char === "`") {
      at += 1;
      template();
    } else if (char === "}" && depth === 0) {
      templates.pop();
      at += 1;
      template();
    } else if (char === "/" && startsRegExp(out.slice(Math.max(0, at - 40), at).join(""))) {
      const end = endOfRegExp(source, at);
      at += 1;
      blankTo(end);
      at = end + 1;
    } else {
      if (depth !== undefined && char === "{") templates[templates.length - 1] = depth + 1;
      if (depth !== undefined && char === "}") templates[templates.length - 1] = depth - 1;
      at += 1;
    }
  }
  return out.join("");
}

function endOr(source: string, found: number, add = 0): number {
  return found === -1 ? source.length : found + add;
}

function endOfString(source: string, start: number): number {
  let at = start + 1;
  while (at < source.length && source[at] !== source[start] && source[at] !== "\n") {
    at += source[at] === "\\" ? 2 : 1;
  }
  return at;
}

function endOfTemplatePart(source: string, start: number): number {
  let at = start;
  while (at < source.length && source[at] !== "`" && !source.startsWith("${", at)) {
    at += source[at] === "\\" ? 2 : 1;
  }
  return at;
}

function endOfRegExp(source: string, start: number): number {
  let inClass = false;
  let at = start + 1;
  while (at < source.length && source[at] !== "\n" && (inClass || source[at] !== "/")) {
    if (source[at] === "[") inClass = true;
    if (source[at] === "]") inClass = false;
    at += source[at] === "\\" ? 2 : 1;
  }
  return at;
}

/** A slash after a value is a division; anywhere else it starts a regular expression. */
function startsRegExp(before: string): boolean {
  return /(^|[(,=:[!&|?{};+\-*%<>~^]|\b(return|typeof|case|in|of|do|else|void|throw|await|yield))\s*$/.test(
    before,
  );
}

/** Every module name that is imported, re-exported or required, with its line. */
export function findImports(source: string): { specifier: string; line: number }[] {
  const code = blankNonCode(source);
  const found: { specifier: string; line: number }[] = [];
  for (const match of code.matchAll(/\b(?:from|import|require)\s*\(?\s*(["'`])/g)) {
    const start = match.index + match[0].length;
    const end = code.indexOf(match[1] ?? '"', start);
    found.push({ specifier: source.slice(start, end), line: lineAt(source, match.index) });
  }
  return found;
}

/**
 * A brace block of code: its first line, its length, and its length without the functions inside
 * it.
 */
export interface Block {
  readonly line: number;
  readonly lines: number;
  readonly ownLines: number;
}

/**
 * Every function body and control block. Object literals, types, classes and import lists are not
 * included.
 */
export function findBlocks(source: string): Block[] {
  const code = blankNonCode(source);
  const blocks: Block[] = [];
  const open: { offset: number; counted: boolean; insideLines: number }[] = [];
  for (let at = 0; at < code.length; at += 1) {
    if (code[at] === "{") open.push({ offset: at, counted: isCode(code, at), insideLines: 0 });
    if (code[at] !== "}") continue;
    const block = open.pop();
    if (block === undefined) throw new Error(`unbalanced brace at line ${lineAt(source, at)}`);
    const line = lineAt(source, block.offset);
    const lines = lineAt(source, at) - line + 1;
    if (block.counted) blocks.push({ line, lines, ownLines: lines - block.insideLines });
    const parent = open.at(-1);
    if (parent !== undefined) {
      parent.insideLines += isFunction(code, block.offset) ? lines - 1 : block.insideLines;
    }
  }
  if (open.length > 0) throw new Error("a brace is never closed");
  return blocks;
}

/** Decides by the text before the brace, back to the previous statement or brace. */
function isCode(code: string, brace: number): boolean {
  const head = headBefore(code, brace);
  if (/\b(class|interface|namespace|module)\b/.test(head)) return false;
  if (head.endsWith("=>")) return true;
  return !/([=(,[:?|&<.$]|\b(return|satisfies|as|import|export|type|extends|in|of|default))$/.test(
    head,
  );
}

function isFunction(code: string, brace: number): boolean {
  const head = headBefore(code, brace);
  return isCode(code, brace) && !/^(if|for|while|switch|else|try|catch|finally|do)\b/.test(head);
}

function headBefore(code: string, brace: number): string {
  const before = code.slice(Math.max(0, brace - 2_000), brace);
  return before.slice(Math.max(...[";", "{", "}"].map((c) => before.lastIndexOf(c))) + 1).trim();
}

/** The line of an offset, counted from 1. */
export function lineAt(source: string, offset: number): number {
  return source.slice(0, offset).split("\n").length;
}
