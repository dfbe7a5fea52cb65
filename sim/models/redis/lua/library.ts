// The functions of Lua's libraries that our scripts call, and no others.

import { search } from "./patterns.ts";
import {
  LuaError,
  type LuaFunction,
  numberText,
  parseNumber,
  Table,
  toNumber,
  toText,
  typeOf,
  type Value,
} from "./values.ts";

const NIL: readonly Value[] = [undefined];

function library(functions: Readonly<Record<string, LuaFunction>>): Table {
  const table = new Table();
  for (const [name, value] of Object.entries(functions)) table.set(name, value);
  return table;
}

/**
 * Converts a Lua position (counted from 1, or from the end if negative) to an index counted from 0.
 */
function toIndex(value: Value, length: number): number {
  const at = value === undefined ? 1 : Math.trunc(toNumber(value));
  if (at > 0) return Math.min(at - 1, length);
  return at === 0 ? 0 : Math.max(0, length + at);
}

function sub([value, from, to]: readonly Value[]): readonly Value[] {
  const text = toText(value, "take a part of");
  const end = to === undefined ? -1 : Math.trunc(toNumber(to));
  return [
    text.slice(toIndex(from, text.length), end < 0 ? Math.max(0, text.length + end + 1) : end),
  ];
}

function match([value, pattern, from]: readonly Value[]): readonly Value[] {
  const text = toText(value, "match");
  return search(text, toText(pattern, "match by"), toIndex(from, text.length))?.captures ?? NIL;
}

function find([value, pattern, from, plain]: readonly Value[]): readonly Value[] {
  const text = toText(value, "search");
  const wanted = toText(pattern, "search for");
  const start = toIndex(from, text.length);
  if (plain === true) {
    const at = start > text.length ? -1 : text.indexOf(wanted, start);
    return at < 0 ? NIL : [at + 1, at + wanted.length];
  }
  const found = search(text, wanted, start);
  if (found === undefined) return NIL;
  const captures = /\(/.test(wanted) ? found.captures : [];
  return [found.start + 1, found.end, ...captures];
}

function byte([value, at]: readonly Value[]): readonly Value[] {
  const text = toText(value, "take a byte of");
  const code = text.charCodeAt(toIndex(at, text.length));
  return Number.isNaN(code) ? [] : [code];
}

function format([pattern, ...values]: readonly Value[]): readonly Value[] {
  let next = 0;
  const text = toText(pattern, "format by").replace(/%(%|\.0f|[a-z.0-9]*)/g, (_, how: string) => {
    if (how === "%") return "%";
    const value = values[next];
    next += 1;
    if (how === "s") return toText(value, "format");
    if (how === "d") return String(Math.trunc(toNumber(value)));
    if (how === ".0f") return formatInteger(toNumber(value));
    if (how === "016.0f") return formatInteger(toNumber(value)).padStart(16, "0");
    throw new LuaError(`%${how} is not supported by this Lua`);
  });
  return [text];
}

/** C rounds a half to even, and prints every digit above 2^53. */
function formatInteger(value: number): string {
  const below = Math.floor(value);
  const even = value - below === 0.5 ? 2 * Math.round(value / 2) : Math.round(value);
  return Number.isFinite(value) ? String(BigInt(even)) : numberText(value);
}

function next([table, at]: readonly Value[]): readonly Value[] {
  const index = (at as number) + 1;
  const value = (table as Table).get(index);
  return value === undefined ? NIL : [index, value];
}

function expectTable(value: Value): Table {
  if (value instanceof Table) return value;
  throw new LuaError(`bad argument (table expected, got ${typeOf(value)})`);
}

/** A list of texts as JSON. It is all that our scripts encode. */
function encodeJson([value]: readonly Value[]): readonly Value[] {
  return [JSON.stringify(expectTable(value).list)];
}

/** Objects become empty tables, because our scripts read lists only. */
function decodeJson([value]: readonly Value[]): readonly Value[] {
  const toValue = (json: unknown): Value => {
    if (Array.isArray(json)) return new Table(json.map(toValue));
    if (json !== null && typeof json === "object") return new Table();
    return json === null ? false : (json as string | number | boolean);
  };
  try {
    return [toValue(JSON.parse(toText(value, "decode")))];
  } catch {
    throw new LuaError("Expected value but found invalid token");
  }
}

export const GLOBALS: ReadonlyMap<string, Value> = new Map<string, Value>([
  ["string", library({ sub, match, find, byte, format })],
  ["cjson", library({ encode: encodeJson, decode: decodeJson })],
  [
    "math",
    library({
      floor: ([value]) => [Math.floor(toNumber(value))],
      max: (values) => [Math.max(...values.map(toNumber))],
      min: (values) => [Math.min(...values.map(toNumber))],
    }),
  ],
  [
    "tonumber",
    ([value]: readonly Value[]) => [
      typeof value === "string"
        ? parseNumber(value)
        : typeof value === "number"
          ? value
          : undefined,
    ],
  ],
  [
    "tostring",
    ([value]: readonly Value[]) => [
      typeof value === "string" || typeof value === "number"
        ? toText(value)
        : value === undefined
          ? "nil"
          : typeof value === "boolean"
            ? String(value)
            : typeOf(value),
    ],
  ],
  ["type", ([value]: readonly Value[]) => [typeOf(value)]],
  ["ipairs", ([value]: readonly Value[]) => [next, expectTable(value), 0]],
  ["unpack", ([value]: readonly Value[]) => expectTable(value).list],
  [
    "error",
    ([value]: readonly Value[]): never => {
      throw new LuaError(value);
    },
  ],
  [
    "pcall",
    ([callee, ...args]: readonly Value[]): readonly Value[] => {
      try {
        if (typeof callee !== "function")
          throw new LuaError(`attempt to call a ${typeOf(callee)} value`);
        return [true, ...callee(args)];
      } catch (error) {
        if (!(error instanceof LuaError)) throw error;
        // Redis replaces pcall: if a command was rejected, it returns the text of the error instead
        // of the table.
        const { value } = error;
        return [false, value instanceof Table ? (value.get("err") ?? value) : value];
      }
    },
  ],
]);
