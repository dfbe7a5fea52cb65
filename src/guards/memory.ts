// The guard for a resource inside this process: a map of highest tokens, and a synchronous function as the atomic
// step. For tests and for single processes; it is also the shortest statement of the rule. It forgets with the process.

import {
  admit,
  checkSource,
  type Guard,
  refuseAsync,
  refusePromise,
  type TokenSource,
} from "./guard.ts";

export type { Guard, TokenSource } from "./guard.ts";

export interface MemoryGuard extends Guard {
  /** Runs the write when the token is not stale, and returns what it returns. The function must be synchronous. */
  write<T>(source: TokenSource, write: () => T): T;
  raise(source: TokenSource): void;
  highest(resource: string): bigint | undefined;
}

export function memoryGuard(): MemoryGuard {
  const highest = new Map<string, bigint>();

  function raise(source: TokenSource): void {
    const { resource } = checkSource(source);
    highest.set(resource, admit(source, highest.get(resource)));
  }

  return {
    raise,
    highest: (resource) => highest.get(resource),
    write(source, write) {
      refuseAsync(write);
      // Raised before the write and kept when it throws: memory has no rollback, so a part of it may have happened.
      raise(source);
      const result = write();
      refusePromise(result);
      return result;
    },
  };
}
