// The guard for a resource inside this process: a map of highest tokens, and a synchronous function as the atomic
// step. For tests and for single processes; it is also the shortest statement of the rule. It forgets with the process.

import {
  admit,
  checkBound,
  GUARD_OPTIONS,
  type Guard,
  type GuardOptions,
  refuseAsync,
  refusePromise,
  resolveSource,
  splitArguments,
  type TokenSource,
} from "../guard.ts";

export type { Guard, GuardOptions, TokenSource } from "../guard.ts";

export interface MemoryGuard extends Guard {
  /**
   * Runs the write when the token is not stale, and returns what it returns. The function must be synchronous. Without a
   * source: under the lease of the `lease.run()` around the call.
   */
  write<T>(write: () => T): T;
  write<T>(source: TokenSource, write: () => T): T;
  advance(source?: TokenSource): void;
  highest(resource: string): bigint | undefined;
  readonly writeMethods: readonly "write"[];
}

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
      refuseAsync(write);
      // Advanced before the write and kept when it throws: memory has no rollback, so a part of it may have happened.
      advance(source);
      const result = write();
      refusePromise(result);
      return result;
    },
  };
}
