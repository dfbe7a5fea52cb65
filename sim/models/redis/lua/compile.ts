// Compiles Lua statements to JavaScript functions of the running frame, and a whole script to one
// function. A script is compiled once and runs for every call of every seed, so no state of a run
// is kept here.

import type { Body, Expression, Statement } from "./ast.ts";
import {
  type Context,
  call,
  type Evaluate,
  expression,
  expressions,
  frameAt,
} from "./expressions.ts";
import { GLOBALS } from "./library.ts";
import { parse } from "./parser.ts";
import { type Frame, Scope } from "./scope.ts";
import {
  isTrue,
  LuaError,
  type LuaFunction,
  Table,
  toNumber,
  typeOf,
  type Value,
} from "./values.ts";

/** The names that Redis defines for a script. */
export interface Given {
  readonly KEYS: Table;
  readonly ARGV: Table;
  readonly redis: Table;
}

const GIVEN = ["KEYS", "ARGV", "redis"] as const;

/** Returns undefined to continue, a list to return it, or BREAK to leave the loop. */
type Run = (frame: Frame) => readonly Value[] | undefined;

const BREAK: readonly Value[] = [];
const NOTHING: readonly Value[] = [];

export function compile(source: string): (given: Given) => Value {
  const scope = new Scope();
  for (const name of GIVEN) scope.declare(name);
  const run = block(parse(source), createContext(scope));
  const size = scope.size;
  return (given) => {
    const slots = new Array<Value>(size).fill(undefined);
    GIVEN.forEach((name, at) => {
      slots[at] = given[name];
    });
    return (run({ slots, up: undefined }) ?? NOTHING)[0];
  };
}

function createContext(scope: Scope): Context {
  return { scope, makeFunction, global };
}

function global(name: string, line: number): Value {
  const value = GLOBALS.get(name);
  if (value === undefined) throw new Error(`line ${line}: ${name} is not supported by this Lua`);
  return value;
}

function makeFunction(
  { parameters, block: statements }: Body,
  up: Scope,
): (frame: Frame) => LuaFunction {
  const scope = new Scope(up);
  for (const name of parameters) scope.declare(name);
  const run = block(statements, createContext(scope));
  const { size } = scope;
  const count = parameters.length;
  return (frame) => (args) => {
    const slots: Value[] = [];
    for (let at = 0; at < size; at += 1) slots.push(at < count ? args[at] : undefined);
    return run({ slots, up: frame }) ?? NOTHING;
  };
}

function block(statements: readonly Statement[], context: Context): Run {
  const runs = context.scope.inside("block", () => statements.map((it) => statement(it, context)));
  const count = runs.length;
  return (frame) => {
    for (let at = 0; at < count; at += 1) {
      const result = (runs[at] as Run)(frame);
      if (result !== undefined) return result;
    }
    return undefined;
  };
}

function statement(it: Statement, context: Context): Run {
  const { scope } = context;
  switch (it.is) {
    case "local":
      return local(it, context);
    case "localFunction": {
      const slot = scope.declare(it.name);
      const make = makeFunction(it.body, scope);
      return (frame) => {
        frame.slots[slot] = make(frame);
        return undefined;
      };
    }
    case "assign":
      return assign(it, context);
    case "call": {
      const run = call(it.call, context);
      return (frame) => {
        run(frame);
        return undefined;
      };
    }
    case "if":
      return branches(it, context);
    case "while": {
      const test = expression(it.test, context);
      const body = scope.inside("loop", () => block(it.block, context));
      return (frame) => {
        while (isTrue(test(frame))) {
          const result = body(frame);
          if (result !== undefined) return result === BREAK ? undefined : result;
        }
        return undefined;
      };
    }
    case "count":
      return counting(it, context);
    case "each":
      return each(it, context);
    case "do":
      return block(it.block, context);
    case "return":
      return expressions(it.values, context);
    case "break":
      return () => BREAK;
  }
}

function local(it: Extract<Statement, { is: "local" }>, context: Context): Run {
  // The values are evaluated before the new names are in scope.
  const single = it.names.length === 1 && it.values.length === 1;
  if (single) {
    const value = expression(it.values[0] as Expression, context);
    const slot = context.scope.declare(it.names[0] as string);
    return (frame) => {
      frame.slots[slot] = value(frame);
      return undefined;
    };
  }
  const values = expressions(it.values, context);
  const slots = it.names.map((name) => context.scope.declare(name));
  return (frame) => {
    const given = values(frame);
    for (let at = 0; at < slots.length; at += 1) frame.slots[slots[at] as number] = given[at];
    return undefined;
  };
}

type Put = (frame: Frame, value: Value) => void;

function assign(it: Extract<Statement, { is: "assign" }>, context: Context): Run {
  const [target, ...others] = it.targets.map((one) => put(one, context)) as [Put, ...Put[]];
  const [value, ...more] = it.values;
  if (others.length === 0 && more.length === 0) {
    const evaluate = expression(value as Expression, context);
    return (frame) => {
      target(frame, evaluate(frame));
      return undefined;
    };
  }
  const values = expressions(it.values, context);
  const targets = [target, ...others];
  return (frame) => {
    const given = values(frame);
    for (let at = 0; at < targets.length; at += 1) (targets[at] as Put)(frame, given[at]);
    return undefined;
  };
}

function put(target: Expression, context: Context): Put {
  if (target.is === "name") {
    const place = context.scope.find(target.name);
    if (place === undefined)
      throw new Error(
        `line ${target.line}: ${target.name} is no local, and Redis has no globals to set`,
      );
    const { depth, slot } = place;
    return (frame, value) => {
      frameAt(frame, depth).slots[slot] = value;
    };
  }
  if (target.is !== "index") throw new Error("only names and places in tables can be set");
  const table = expression(target.table, context);
  const key = expression(target.key, context);
  return (frame, value) => {
    const found = table(frame);
    if (!(found instanceof Table)) throw new LuaError(`attempt to index a ${typeOf(found)} value`);
    found.set(key(frame), value);
  };
}

function branches(it: Extract<Statement, { is: "if" }>, context: Context): Run {
  const all = it.branches.map(({ test, block: statements }) => ({
    test: test === undefined ? undefined : expression(test, context),
    run: block(statements, context),
  }));
  return (frame) => {
    for (const { test, run } of all)
      if (test === undefined || isTrue(test(frame))) return run(frame);
    return undefined;
  };
}

function counting(it: Extract<Statement, { is: "count" }>, context: Context): Run {
  const one: Evaluate = () => 1;
  const [from, to, by] = [
    expression(it.from, context),
    expression(it.to, context),
    it.step === undefined ? one : expression(it.step, context),
  ];
  return context.scope.inside("loop", () => {
    const slot = context.scope.declare(it.name);
    const body = block(it.block, context);
    return (frame) => {
      const [last, step] = [toNumber(to(frame)), toNumber(by(frame))];
      for (let at = toNumber(from(frame)); step > 0 ? at <= last : at >= last; at += step) {
        frame.slots[slot] = at;
        const result = body(frame);
        if (result !== undefined) return result === BREAK ? undefined : result;
      }
      return undefined;
    };
  });
}

function each(it: Extract<Statement, { is: "each" }>, context: Context): Run {
  const over = expressions(it.over, context);
  return context.scope.inside("loop", () => {
    const slots = it.names.map((name) => context.scope.declare(name));
    const body = block(it.block, context);
    return (frame) => {
      const [next, state, first] = over(frame);
      if (typeof next !== "function") throw new LuaError(`attempt to call a ${typeOf(next)} value`);
      let control = first;
      for (;;) {
        const values = next([state, control]);
        control = values[0];
        if (control === undefined) return undefined;
        for (let at = 0; at < slots.length; at += 1) frame.slots[slots[at] as number] = values[at];
        const result = body(frame);
        if (result !== undefined) return result === BREAK ? undefined : result;
      }
    };
  });
}
