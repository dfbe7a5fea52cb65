// The resource of one pause, in the process that measures: it takes what its guard admits or, where a library has no token to
// compare, all that arrives. A write is late when the former holder's comes behind one of its successor, and is taken.

import { StaleTokenError } from "../../src/core/errors.ts";
import { type MemoryGuard, memoryGuard } from "../../src/guards/memory/index.ts";

/** The first is stopped; the second takes over. */
export type Writer = "first" | "second";

export class WrittenResource {
  readonly #name: string;
  readonly #guard: MemoryGuard | undefined;
  readonly #taken: Writer[] = [];

  constructor(name: string, { isGuarded }: { readonly isGuarded: boolean }) {
    this.#name = name;
    this.#guard = isGuarded ? memoryGuard() : undefined;
  }

  /** `token`: as it came over the wire, in decimal digits. */
  write(by: Writer, token?: string): void {
    if (this.#guard === undefined) {
      this.#taken.push(by);
      return;
    }
    // Without a token there is nothing to compare, and a count of refused writes would prove nothing.
    if (token === undefined) throw new Error(`The ${by} writer sent no token.`);
    try {
      this.#guard.write({ resource: this.#name, token: BigInt(token) }, () => this.#taken.push(by));
    } catch (error) {
      if (!(error instanceof StaleTokenError)) throw error;
    }
  }

  /** Writes of the first that were taken behind one of the second. */
  get lateWrites(): number {
    const since = this.#taken.indexOf("second");
    if (since < 0) return 0;
    return this.#taken.slice(since).filter((by) => by === "first").length;
  }
}
