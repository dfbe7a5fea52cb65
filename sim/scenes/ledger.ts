// The resource that the lease protects in a scene: rows on a separate machine, with or without the
// real guard. Each program has one connection to it. Writes arrive in the order in which they were
// sent, and writes in a stuck buffer arrive when it drains.

import { StaleTokenError } from "../../src/core/errors.ts";
import { type MemoryGuard, memoryGuard } from "../../src/guards/memory/index.ts";
import type { Advanceable } from "../../src/holder/advance.ts";
import type { Network } from "../world/network.ts";
import type { Program } from "../world/program.ts";
import type { Tale } from "./tale.ts";

export interface Row {
  readonly row: string;
  /** The write is judged by this token. The guard sees it only if `guarded`. */
  readonly token: bigint;
  readonly guarded: boolean;
}

export interface LedgerParts {
  readonly program: Program;
  readonly network: Network;
  readonly tale: Tale;
  readonly resource: string;
  /** True time. */
  readonly now: () => number;
}

export class Ledger {
  readonly program: Program;
  readonly #network: Network;
  readonly #tale: Tale;
  readonly #resource: string;
  readonly #now: () => number;
  readonly #guard: MemoryGuard = memoryGuard();
  readonly #rows = new Map<string, bigint>();
  readonly #connections = new Map<string, (arrive: () => void) => void>();

  constructor(parts: LedgerParts) {
    this.#now = parts.now;
    this.program = parts.program;
    this.#network = parts.network;
    this.#tale = parts.tale;
    this.#resource = parts.resource;
  }

  /** Sends immediately, as a pipelining driver does. The caller may wait for the answer. */
  write(from: Program, row: Row): Promise<void> {
    const sentAt = this.#now();
    return new Promise((resolve) => {
      this.#connection(from)(() => {
        this.#land(from.name, row, sentAt);
        this.#network.send(this.program, from, resolve);
      });
    });
  }

  has(row: string): boolean {
    return this.#rows.has(row);
  }

  /** A guard for acquire({ guards }). */
  guardFor(from: Program): Advanceable {
    return {
      advance: ({ resource, token }) =>
        new Promise<void>((resolve, reject) => {
          this.#connection(from)(() => {
            const refusal = this.#catchStale(() => this.#guard.advance({ resource, token }));
            this.#network.send(this.program, from, () =>
              refusal === undefined ? resolve() : reject(refusal),
            );
          });
        }),
    };
  }

  #land(who: string, { row, token, guarded }: Row, sentAt: number): void {
    const source = { resource: this.#resource, token };
    const refusal = guarded
      ? this.#catchStale(() => this.#guard.write(source, () => 0))
      : undefined;
    const writer = this.#rows.get(row);
    const isDouble = writer !== undefined && writer !== token;
    const isStale = token < this.#tale.newestToken;
    const outcome = refusal === undefined ? "admitted" : "refused";
    this.#tale.record(who, { kind: "landed", sentAt, row, token, outcome, isStale, isDouble });
    if (outcome === "admitted") this.#rows.set(row, token);
  }

  #catchStale(act: () => unknown): StaleTokenError | undefined {
    try {
      act();
      return undefined;
    } catch (error) {
      if (error instanceof StaleTokenError) return error;
      throw error;
    }
  }

  #connection(from: Program): (arrive: () => void) => void {
    const known = this.#connections.get(from.name);
    if (known !== undefined) return known;
    const opened = this.#network.openStream(from, this.program);
    this.#connections.set(from.name, opened);
    return opened;
  }
}
