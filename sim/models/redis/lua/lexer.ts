// Splits the text of a Lua script into tokens.

export type Token =
  | { readonly kind: "name" | "word" | "string"; readonly text: string; readonly line: number }
  | {
      readonly kind: "number";
      readonly text: string;
      readonly value: number;
      readonly line: number;
    }
  | { readonly kind: "end"; readonly text: ""; readonly line: number };

const KEYWORDS = new Set(
  "and break do else elseif end false for function if in local nil not or return then true while".split(
    " ",
  ),
);

const SPACE = /(?:[ \t\r\n]|--(?!\[\[)[^\n]*)+/y;
const NAME = /[A-Za-z_]\w*/y;
const NUMBER = /\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y;
const STRING = /'((?:[^'\\\n]|\\.)*)'|"((?:[^"\\\n]|\\.)*)"/y;
const SIGN = /\.\.|==|~=|<=|>=|[-+*/%#<>=(){}[\],.;]/y;

const ESCAPES: Readonly<Record<string, string>> = { n: "\n", t: "\t", r: "\r" };

export function tokenize(source: string): Token[] {
  const tokens: Token[] = [];
  let at = 0;
  let line = 1;
  const take = (pattern: RegExp): RegExpExecArray | undefined => {
    pattern.lastIndex = at;
    const found = pattern.exec(source);
    if (found === null) return undefined;
    at = pattern.lastIndex;
    return found;
  };
  for (;;) {
    const space = take(SPACE)?.[0] ?? "";
    line += space.split("\n").length - 1;
    if (at >= source.length) return [...tokens, { kind: "end", text: "", line }];
    const name = take(NAME)?.[0];
    if (name !== undefined) {
      tokens.push({ kind: KEYWORDS.has(name) ? "word" : "name", text: name, line });
      continue;
    }
    const number = take(NUMBER)?.[0];
    if (number !== undefined) {
      tokens.push({ kind: "number", text: number, value: Number(number), line });
      continue;
    }
    const string = take(STRING);
    if (string !== undefined) {
      const text = unescapeText(string[1] ?? string[2] ?? "");
      tokens.push({ kind: "string", text, line });
      continue;
    }
    const sign = take(SIGN)?.[0];
    if (sign === undefined)
      throw new Error(`line ${line}: ${source.slice(at, at + 10)} is not supported by this Lua`);
    tokens.push({ kind: "word", text: sign, line });
  }
}

function unescapeText(text: string): string {
  return text.replace(/\\(\d{1,3}|.)/g, (_, code: string) =>
    /\d/.test(code) ? String.fromCharCode(Number(code)) : (ESCAPES[code] ?? code),
  );
}
