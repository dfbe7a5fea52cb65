// Resolves names while a Lua script is compiled. At run time each function call has a frame with
// one slot per local variable, and a reference to the frame of the function that surrounds it.

import type { Value } from "./values.ts";

/** One function call. */
export interface Frame {
  readonly slots: Value[];
  readonly up: Frame | undefined;
}

/** `depth` is the number of functions further out. */
export interface Place {
  readonly depth: number;
  readonly slot: number;
}

interface Local {
  readonly slot: number;
  readonly isInLoop: boolean;
}

/** The names of one function. */
export class Scope {
  readonly #up: Scope | undefined;
  readonly #blocks: Map<string, Local>[] = [new Map()];
  #slots = 0;
  #loops = 0;

  constructor(up?: Scope) {
    this.#up = up;
  }

  /** The number of slots that its frame needs. */
  get size(): number {
    return this.#slots;
  }

  declare(name: string): number {
    const slot = this.#slots;
    this.#slots += 1;
    this.#blocks.at(-1)?.set(name, { slot, isInLoop: this.#loops > 0 });
    return slot;
  }

  inside<T>(kind: "block" | "loop", work: () => T): T {
    this.#blocks.push(new Map());
    if (kind === "loop") this.#loops += 1;
    try {
      return work();
    } finally {
      this.#blocks.pop();
      if (kind === "loop") this.#loops -= 1;
    }
  }

  /** Returns undefined for a global. */
  find(name: string): Place | undefined {
    let depth = 0;
    for (let scope: Scope | undefined = this; scope !== undefined; scope = scope.#up) {
      const local = scope.#own(name);
      if (local !== undefined) {
        // In Lua each iteration of a loop has its own locals. Here they share one slot.
        if (depth > 0 && local.isInLoop)
          throw new Error(
            `a function uses ${name} of the loop around it, which this Lua does not support`,
          );
        return { depth, slot: local.slot };
      }
      depth += 1;
    }
    return undefined;
  }

  #own(name: string): Local | undefined {
    for (let at = this.#blocks.length - 1; at >= 0; at -= 1) {
      const local = this.#blocks[at]?.get(name);
      if (local !== undefined) return local;
    }
    return undefined;
  }
}
