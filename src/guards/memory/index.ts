// The guard for a resource inside this process: a map of highest tokens, with a synchronous
// function as the atomic step. It is for tests and single processes, and it is the shortest
// implementation of the rule. Its tokens are lost when the process ends.

import {
  admit,
  checkBound,
  GUARD_OPTIONS,
  type Guard,
  type GuardOptions,
  rejectAsync,
  rejectPromise,
  resolveSource,
  splitArguments,
  type TokenSource,
} from "../guard.ts";

export type { AdvanceOptions, Guard, GuardOptions, TokenSource } from "../guard.ts";

/** A guard for data in this process. Its tokens are lost when the process ends. */
export interface MemoryGuard extends Guard {
  /**
   * Runs the write if the token is not stale, and returns its result. The function must be
   * synchronous. Without a source, it uses the lease of the `lease.run()` around the call.
   */
  write<T>(write: () => T): T;
  /** The same, with an explicit lease or token. */
  write<T>(source: TokenSource, write: () => T): T;
  /** Raises the highest token to that of the source without writing anything else. */
  advance(source?: TokenSource): void;
  /** The highest token of the resource, or undefined before the first. */
  highest(resource: string): bigint | undefined;
  /** The names of the methods above that write, for boundedBy(). */
  readonly writeMethods: readonly "write"[];
}

/** Creates a guard for data in this process, for tests and for single processes. */
export function memoryGuard(options: GuardOptions = {}): MemoryGuard {
  const bound = checkBound("memoryGuard()", options, GUARD_OPTIONS);
  const highest = new Map<string, bigint>();

  function advance(given?: TokenSource): void {
    const source = resolveSource(given, bound);
    highest.set(source.resource, admit(source, highest.get(source.resource)));
  }

  return {
    writeMethods: ["write"],
    advance,
    highest: (resource) => highest.get(resource),
    write<T>(...args: [TokenSource, () => T] | [() => T]): T {
      const [source, write] = splitArguments(args);
      rejectAsync(write);
      // The highest is raised before the write and stays if the write throws. Memory has no
      // rollback, so the write may have happened in part.
      advance(source);
      const result = write();
      rejectPromise(result);
      return result;
    },
  };
}
