// Blocks access to the real world during a simulation: clocks, randomness, timers, sockets and
// disks throw. Any such access would make runs of the same seed differ, for a reason that is hard
// to find.

import { syncBuiltinESMExports } from "node:module";
import { type AccessPoint, listAccessPoints } from "./real-world-access.ts";

const STACK_LINES = 20;

/** How many callers of isolate() have not ended it yet. */
let isolations = 0;
let unblockAll: () => void = () => undefined;
/** Access points and their blocked versions are created once, because runs are short. */
let accessPoints: readonly AccessPoint[] | undefined;
const blockedVersions = new WeakMap<object, object>();

/**
 * Blocks the real world and returns the function that restores it exactly. Calls may be nested;
 * only the outermost one does the work, so a caller with many runs isolates once for all of them.
 */
export function isolate(): () => void {
  if (isolations === 0) unblockAll = blockAll();
  isolations += 1;
  return () => {
    isolations -= 1;
    if (isolations === 0) unblockAll();
  };
}

function blockAll(): () => void {
  const { stackTraceLimit } = Error;
  // Most errors in a run are planned faults, and capturing their stacks would dominate the run
  // time.
  Error.stackTraceLimit = 0;
  accessPoints ??= listAccessPoints();
  const restore = accessPoints.map(block);
  // Named imports of builtin modules follow a change only after this call.
  syncBuiltinESMExports();
  return () => {
    for (const each of restore) each();
    syncBuiltinESMExports();
    Error.stackTraceLimit = stackTraceLimit;
  };
}

function block(point: AccessPoint): () => void {
  const { holder, name } = point;
  const original = Object.getOwnPropertyDescriptor(holder, name) as PropertyDescriptor;
  const blocked =
    original.get === undefined
      ? { ...original, value: getBlocked(original.value, point) }
      : { ...original, get: getBlocked(original.get, point) };
  Object.defineProperty(holder, name, blocked);
  return () => Object.defineProperty(holder, name, original);
}

/**
 * A function that is reachable under two names has one blocked version, so that identity is
 * preserved.
 */
function getBlocked<T extends object>(original: T, point: AccessPoint): T {
  const blocked =
    (blockedVersions.get(original) as T | undefined) ?? createBlocked(original, point);
  blockedVersions.set(original, blocked);
  return blocked;
}

/**
 * The blocked version works normally outside of isolation, because a module loaded during it may
 * keep it.
 */
function createBlocked<T extends object>(original: T, { where, name, isBlocked }: AccessPoint): T {
  const reject = (args: readonly unknown[], isNew: boolean): void => {
    if (isolations === 0 || isBlocked?.(args, isNew) === false) return;
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = STACK_LINES;
    const error = new Error(
      `${where}.${name} was used inside the simulated world. Take time and randomness from Clock and Random.`,
    );
    Error.stackTraceLimit = stackTraceLimit;
    throw error;
  };
  return new Proxy(original, {
    apply: (target, self, args) => {
      reject(args, false);
      return Reflect.apply(target as (...all: unknown[]) => unknown, self, args);
    },
    construct: (target, args, newTarget) => {
      reject(args, true);
      return Reflect.construct(target as new () => object, args, newTarget);
    },
  });
}
