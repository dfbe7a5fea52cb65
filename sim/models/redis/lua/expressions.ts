// Compiles Lua expressions to JavaScript functions that take the frame of the running call. Part of
// the Lua compiler with which the Redis model runs the store's own scripts. Behaves like the Lua of
// Redis, including its errors, for the part of the language that these scripts use.

import type { Body, Expression, Item, Operator } from "./ast.ts";
import type { Frame, Scope } from "./scope.ts";
import {
  isTrue,
  LuaError,
  type LuaFunction,
  Table,
  toNumber,
  toText,
  typeOf,
  type Value,
} from "./values.ts";

export type Evaluate = (frame: Frame) => Value;
export type EvaluateAll = (frame: Frame) => readonly Value[];

/** What expressions need from the rest of the compiler: globals, and function bodies. */
export interface Context {
  readonly scope: Scope;
  global(name: string, line: number): Value;
  makeFunction(body: Body, scope: Scope): (frame: Frame) => LuaFunction;
}

export function expression(it: Expression, context: Context): Evaluate {
  switch (it.is) {
    case "constant": {
      const { value } = it;
      return () => value;
    }
    case "name":
      return name(it, context);
    case "index":
      return index(it, context);
    case "call": {
      const all = call(it, context);
      return (frame) => all(frame)[0];
    }
    case "single":
      return expression(it.of, context);
    case "function":
      return context.makeFunction(it.body, context.scope);
    case "table":
      return table(it.items, context);
    case "unary":
      return unary(it.operator, expression(it.of, context));
    case "binary": {
      if (it.operator === "..") return concatenation(it, context);
      const left = expression(it.left, context);
      return BINARY[it.operator](left, expression(it.right, context));
    }
  }
}

/** Evaluates a list. A call in the last place contributes all its results. */
export function expressions(list: readonly Expression[], context: Context): EvaluateAll {
  const last = list.at(-1);
  if (last?.is === "call") {
    const before = list.slice(0, -1).map((it) => expression(it, context));
    const rest = call(last, context);
    if (before.length === 0) return rest;
    return (frame) => {
      const values: Value[] = [];
      for (const evaluate of before) values.push(evaluate(frame));
      for (const value of rest(frame)) values.push(value);
      return values;
    };
  }
  const all = list.map((it) => expression(it, context));
  if (all.length === 1) {
    const [only] = all as [Evaluate];
    return (frame) => [only(frame)];
  }
  return (frame) => {
    const values: Value[] = [];
    for (const evaluate of all) values.push(evaluate(frame));
    return values;
  };
}

export function call(it: Extract<Expression, { is: "call" }>, context: Context): EvaluateAll {
  const callee = expression(it.callee, context);
  const args = expressions(it.args, context);
  return (frame) => {
    const called = callee(frame);
    if (typeof called !== "function")
      throw new LuaError(`attempt to call a ${typeOf(called)} value`);
    return called(args(frame));
  };
}

function name(it: Extract<Expression, { is: "name" }>, { scope, global }: Context): Evaluate {
  const place = scope.find(it.name);
  if (place === undefined) {
    const value = global(it.name, it.line);
    return () => value;
  }
  const { depth, slot } = place;
  if (depth === 0) return (frame) => frame.slots[slot];
  if (depth === 1) return (frame) => frame.up?.slots[slot];
  return (frame) => frameAt(frame, depth).slots[slot];
}

export function frameAt(frame: Frame, depth: number): Frame {
  let found = frame;
  for (let step = 0; step < depth; step += 1) found = found.up as Frame;
  return found;
}

function index(it: Extract<Expression, { is: "index" }>, context: Context): Evaluate {
  const table = expression(it.table, context);
  // Scripts cannot modify the libraries in Redis, so their members are known now.
  if (it.table.is === "name" && context.scope.find(it.table.name) === undefined) {
    const value = member(
      table({ slots: [], up: undefined }),
      expression(it.key, context)({ slots: [], up: undefined }),
    );
    if (value === undefined) throw new Error(`${it.table.name} has no such function in this Lua`);
    return () => value;
  }
  if (it.key.is === "constant") {
    const { value } = it.key;
    return (frame) => member(table(frame), value);
  }
  const key = expression(it.key, context);
  return (frame) => member(table(frame), key(frame));
}

function member(table: Value, key: Value): Value {
  if (table instanceof Table) return table.get(key);
  throw new LuaError(`attempt to index a ${typeOf(table)} value`);
}

function table(items: readonly Item[], context: Context): Evaluate {
  const list = expressions(
    items.filter(({ key }) => key === undefined).map(({ value }) => value),
    context,
  );
  const fields = items.flatMap(({ key, value }) =>
    key === undefined ? [] : [[expression(key, context), expression(value, context)] as const],
  );
  return (frame) => {
    const made = new Table([...list(frame)]);
    for (const [key, value] of fields) made.set(key(frame), value(frame));
    return made;
  };
}

function unary(operator: "not" | "#" | "-", of: Evaluate): Evaluate {
  switch (operator) {
    case "not":
      return (frame) => !isTrue(of(frame));
    case "-":
      return (frame) => -toNumber(of(frame));
    case "#":
      return (frame) => {
        const value = of(frame);
        if (typeof value === "string" || value instanceof Table) return value.length;
        throw new LuaError(`attempt to get length of a ${typeOf(value)} value`);
      };
  }
}

/** Concatenates all parts of a chain at once. */
function concatenation(it: Expression, context: Context): Evaluate {
  const parts: Evaluate[] = [];
  let rest = it;
  while (rest.is === "binary" && rest.operator === "..") {
    parts.push(expression(rest.left, context));
    rest = rest.right;
  }
  parts.push(expression(rest, context));
  return (frame) => {
    let text = "";
    for (let at = 0; at < parts.length; at += 1) text += toText((parts[at] as Evaluate)(frame));
    return text;
  };
}

type Binary = (left: Evaluate, right: Evaluate) => Evaluate;

function arithmetic(compute: (left: number, right: number) => number): Binary {
  return (left, right) => (frame) => compute(toNumber(left(frame)), toNumber(right(frame)));
}

/** Compares two numbers or two strings, never one of each. */
function comparison(compare: (left: number | string, right: number | string) => boolean): Binary {
  return (left, right) => (frame) => {
    const [one, other] = [left(frame), right(frame)];
    if (
      (typeof one === "number" && typeof other === "number") ||
      (typeof one === "string" && typeof other === "string")
    )
      return compare(one, other);
    throw new LuaError(
      typeOf(one) === typeOf(other)
        ? `attempt to compare two ${typeOf(one)} values`
        : `attempt to compare ${typeOf(one)} with ${typeOf(other)}`,
    );
  };
}

const BINARY: Readonly<Record<Exclude<Operator, "..">, Binary>> = {
  or: (left, right) => (frame) => {
    const value = left(frame);
    return isTrue(value) ? value : right(frame);
  },
  and: (left, right) => (frame) => {
    const value = left(frame);
    return isTrue(value) ? right(frame) : value;
  },
  "==": (left, right) => (frame) => left(frame) === right(frame),
  "~=": (left, right) => (frame) => left(frame) !== right(frame),
  "<": comparison((one, other) => one < other),
  ">": comparison((one, other) => one > other),
  "<=": comparison((one, other) => one <= other),
  ">=": comparison((one, other) => one >= other),
  "+": arithmetic((one, other) => one + other),
  "-": arithmetic((one, other) => one - other),
  "*": arithmetic((one, other) => one * other),
  "/": arithmetic((one, other) => one / other),
  "%": arithmetic((one, other) => one - Math.floor(one / other) * other),
};
