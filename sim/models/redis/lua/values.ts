// Represents the values of Lua 5.1 in JavaScript: nil is undefined, a string has one character per
// byte, and numbers are doubles in both. This file holds only what differs: tables, and the
// conversion between numbers and text.

export type Value = undefined | boolean | number | string | Table | LuaFunction;
/** Takes a list of arguments and returns a list of results. */
export type LuaFunction = (args: readonly Value[]) => readonly Value[];

/** The value that a script raised: usually a text, or a table if Redis rejected a command. */
export class LuaError extends Error {
  readonly value: Value;

  constructor(value: Value) {
    super(typeof value === "string" ? value : "a Lua error");
    this.value = value;
  }
}

export class Table {
  /** The values from index 1 on. The last one is never nil. */
  readonly list: Value[];
  /** Undefined for most tables, which are plain lists. */
  #rest: Map<Value, Value> | undefined;

  /** Takes ownership of the list. */
  constructor(list: Value[] = []) {
    this.list = list;
    this.#trim();
  }

  get(key: Value): Value {
    if (typeof key === "number" && key >= 1 && key <= this.list.length) {
      const found = this.list[key - 1];
      if (found !== undefined) return found;
    }
    return this.#rest?.get(key);
  }

  set(key: Value, value: Value): void {
    const { list } = this;
    if (typeof key !== "number" || !Number.isInteger(key) || key < 1 || key > list.length + 1) {
      if (key === undefined || Number.isNaN(key)) throw new LuaError("table index is nil");
      if (value === undefined) {
        this.#rest?.delete(key);
      } else {
        this.#rest ??= new Map();
        this.#rest.set(key, value);
      }
      return;
    }
    list[key - 1] = value;
    if (key < list.length) return;
    if (value === undefined) this.#trim();
    else this.#join();
  }

  /** For a list with holes, Lua promises one of the borders. */
  get length(): number {
    return this.list.length;
  }

  /** Moves values that were written beyond the end into the list when the end reaches them. */
  #join(): void {
    const rest = this.#rest;
    while (rest !== undefined && rest.size > 0) {
      const next = this.list.length + 1;
      const value = rest.get(next);
      if (value === undefined) return;
      rest.delete(next);
      this.list.push(value);
    }
  }

  #trim(): void {
    const { list } = this;
    while (list.length > 0 && list[list.length - 1] === undefined) list.pop();
  }
}

export function isTrue(value: Value): boolean {
  return value !== undefined && value !== false;
}

export function typeOf(value: Value): string {
  if (value === undefined) return "nil";
  return value instanceof Table ? "table" : typeof value;
}

/** Parses a number as Lua does. Returns undefined if the text is not a number. */
export function parseNumber(text: string): number | undefined {
  return /^[ \t\n\v\f\r]*[+-]?(0[xX][0-9a-fA-F]+|(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?)[ \t\n\v\f\r]*$/.test(
    text,
  )
    ? signed(text.trim())
    : undefined;
}

function signed(text: string): number {
  return text.startsWith("-") ? -Number(text.slice(1)) : Number(text.replace("+", ""));
}

export function toNumber(value: Value): number {
  if (typeof value === "number") return value;
  const number = typeof value === "string" ? parseNumber(value) : undefined;
  if (number === undefined)
    throw new LuaError(`attempt to perform arithmetic on a ${typeOf(value)} value`);
  return number;
}

/** Converts a number to its text, for `..` and for string functions. */
export function toText(value: Value, what = "concatenate"): string {
  if (typeof value === "string") return value;
  if (typeof value === "number") return numberText(value);
  throw new LuaError(`attempt to ${what} a ${typeOf(value)} value`);
}

/**
 * Formats as C's `%.<digits>g`. Lua uses 14 digits for the text of a number, Redis 17 for an
 * argument.
 */
export function numberText(number: number, digits = 14): string {
  if (Number.isInteger(number) && Math.abs(number) < 10 ** digits)
    return Object.is(number, -0) ? "-0" : String(number);
  if (Number.isNaN(number)) return "nan";
  if (!Number.isFinite(number)) return number > 0 ? "inf" : "-inf";
  const [mantissa = "", exponent = "0"] = round(number, digits).split("e");
  const power = Number(exponent);
  if (power >= -4 && power < digits)
    return trimZeros(Number(`${mantissa}e${power}`).toFixed(digits - 1 - power));
  const sign = power < 0 ? "-" : "+";
  return `${trimZeros(mantissa)}e${sign}${String(Math.abs(power)).padStart(2, "0")}`;
}

/** Rounds to this number of digits. C rounds a half to even, JavaScript away from zero. */
function round(number: number, digits: number): string {
  const [mantissa = "", power = "0"] = number.toExponential(100).split("e");
  const point = mantissa.indexOf(".");
  const kept = mantissa.slice(0, point + digits);
  const isHalf = /^50*$/.test(mantissa.slice(point + digits));
  return isHalf && /[02468]$/.test(kept) ? `${kept}e${power}` : number.toExponential(digits - 1);
}

function trimZeros(text: string): string {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}
