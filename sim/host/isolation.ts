// While the simulator runs, nothing may reach the real world: clocks, chance, timers, sockets and disks throw. What slipped
// through would make a seed run differently each time, and nobody would see why.

import { syncBuiltinESMExports } from "node:module";
import { type AccessPoint, listAccessPoints } from "./real-world-access.ts";

const STACK_LINES = 20;

/** How many have closed it and not opened it again. */
let worlds = 0;
let reopenAll: () => void = () => undefined;
/** Looked for once, and each refusal made once: a day must not cost more for this. */
let known: readonly AccessPoint[] | undefined;
const refusals = new WeakMap<object, object>();

/**
 * Closes the real world; returns the function that opens it again, exactly as it was. Inside of another closing it is for
 * nothing: who runs many days closes it once for all of them.
 */
export function isolate(): () => void {
  if (worlds === 0) reopenAll = closeAll();
  worlds += 1;
  return () => {
    worlds -= 1;
    if (worlds === 0) reopenAll();
  };
}

function closeAll(): () => void {
  const { stackTraceLimit } = Error;
  // Most errors in the world are planned, and a stack costs more than the rest of one.
  Error.stackTraceLimit = 0;
  known ??= listAccessPoints();
  const reopen = known.map(close);
  // What was imported by name follows what hangs on the module only when told to.
  syncBuiltinESMExports();
  return () => {
    for (const open of reopen) open();
    syncBuiltinESMExports();
    Error.stackTraceLimit = stackTraceLimit;
  };
}

function close(door: AccessPoint): () => void {
  const { holder, name } = door;
  const own = Object.getOwnPropertyDescriptor(holder, name) as PropertyDescriptor;
  const shut =
    own.get === undefined
      ? { ...own, value: refusing(own.value, door) }
      : { ...own, get: refusing(own.get, door) };
  Object.defineProperty(holder, name, shut);
  return () => Object.defineProperty(holder, name, own);
}

/** What hangs in two places is one thing in both, as it was. */
function refusing<T extends object>(original: T, door: AccessPoint): T {
  const refusal = (refusals.get(original) as T | undefined) ?? refusalOf(original, door);
  refusals.set(original, refusal);
  return refusal;
}

/** Works again once the world is open: Node may have kept it, in a part of its own that it loaded meanwhile. */
function refusalOf<T extends object>(original: T, { where, name, isRefused }: AccessPoint): T {
  const refuse = (words: readonly unknown[], isNew: boolean): void => {
    if (worlds === 0 || isRefused?.(words, isNew) === false) return;
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = STACK_LINES;
    const error = new Error(
      `${where}.${name} was used inside the simulated world. Take time and chance from Clock and Random.`,
    );
    Error.stackTraceLimit = stackTraceLimit;
    throw error;
  };
  return new Proxy(original, {
    apply: (target, self, words) => {
      refuse(words, false);
      return Reflect.apply(target as (...all: unknown[]) => unknown, self, words);
    },
    construct: (target, words, made) => {
      refuse(words, true);
      return Reflect.construct(target as new () => object, words, made);
    },
  });
}
