// The values of Lua 5.1 as JavaScript has them: nil is undefined, a string is one character a byte, and numbers are doubles
// in both. Only what differs is written down here: tables, the text of a number, the number in a text.

export type Value = undefined | boolean | number | string | Table | LuaFunction;
/** Takes and gives lists, as Lua does. */
export type LuaFunction = (args: readonly Value[]) => readonly Value[];

/** What a script advanced: mostly a text, and a table where Redis refused a command. */
export class LuaError extends Error {
  readonly value: Value;

  constructor(value: Value) {
    super(typeof value === "string" ? value : "a Lua error");
    this.value = value;
  }
}

export class Table {
  /** From 1 on, without holes at its end. */
  readonly list: Value[];
  /** Most tables are lists and nothing else. */
  #rest: Map<Value, Value> | undefined;

  /** The list is its own from now on. */
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

  /** Where it has holes, Lua promises only one of their borders. */
  get length(): number {
    return this.list.length;
  }

  /** What was written beyond the end, when the end has come to it. */
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

/** The number in a text, as Lua reads it; undefined where there is none. */
export function numberIn(text: string): number | undefined {
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
  const number = typeof value === "string" ? numberIn(value) : undefined;
  if (number === undefined)
    throw new LuaError(`attempt to perform arithmetic on a ${typeOf(value)} value`);
  return number;
}

/** For `..` and the functions on strings: a number is taken for its text. */
export function toText(value: Value, what = "concatenate"): string {
  if (typeof value === "string") return value;
  if (typeof value === "number") return numberText(value);
  throw new LuaError(`attempt to ${what} a ${typeOf(value)} value`);
}

/** As C prints it with `%.<digits>g`: Lua's own text of a number has 14 digits, that of an argument to Redis 17. */
export function numberText(number: number, digits = 14): string {
  if (Number.isInteger(number) && Math.abs(number) < 10 ** digits)
    return Object.is(number, -0) ? "-0" : String(number);
  if (Number.isNaN(number)) return "nan";
  if (!Number.isFinite(number)) return number > 0 ? "inf" : "-inf";
  const [mantissa = "", exponent = "0"] = rounded(number, digits).split("e");
  const power = Number(exponent);
  if (power >= -4 && power < digits)
    return withoutZeros(Number(`${mantissa}e${power}`).toFixed(digits - 1 - power));
  const sign = power < 0 ? "-" : "+";
  return `${withoutZeros(mantissa)}e${sign}${String(Math.abs(power)).padStart(2, "0")}`;
}

/** With so many digits. C gives a half to the even side, JavaScript away from zero. */
function rounded(number: number, digits: number): string {
  const [mantissa = "", power = "0"] = number.toExponential(100).split("e");
  const point = mantissa.indexOf(".");
  const kept = mantissa.slice(0, point + digits);
  const isHalf = /^50*$/.test(mantissa.slice(point + digits));
  return isHalf && /[02468]$/.test(kept) ? `${kept}e${power}` : number.toExponential(digits - 1);
}

function withoutZeros(text: string): string {
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}
