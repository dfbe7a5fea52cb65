// The state of memory stores: sessions, and one entry per resource. It has no rules of its own; the
// store in index.ts applies them.

import { clockToken, nextToken } from "../../core/era.ts";
import { checkOptionNames, type OptionNames } from "../../core/options.ts";
import { checkToken } from "../../core/token.ts";
import type { LeaseRef } from "../contract.ts";

export interface Session {
  readonly id: string;
  readonly ttlMs: number;
  expiresAt: number;
  /** Leases of this session that were revoked and not acknowledged yet, by `toKey`. */
  readonly revoked: Map<string, LeaseRef>;
  /**
   * Attempts that were granted to this session, the newest last. None is granted again, however
   * late a copy of its request arrives. This exceeds the contract, which requires a store to
   * recognise only the newest attempt of a resource (`Entry.lastAttempt`).
   */
  readonly granted: Set<string>;
}

export interface Entry {
  readonly resource: string;
  /**
   * The newest token; undefined before the first grant. Entries are never deleted, so the next
   * token is always higher (S1).
   */
  token: bigint | undefined;
  /** The attempt of the newest grant. Kept after its end, so that a late copy is recognised. */
  lastAttempt: string | undefined;
  /** Stays set when the session expires; `#findHeld` clears it. */
  held:
    | {
        readonly session: Session;
        readonly token: bigint;
        readonly holderId: string;
        readonly value: unknown;
        readonly grantedAt: number;
      }
    | undefined;
  /** When the resource became free, by the store's clock. The head start counts from here. */
  freeSince: number;
  queue: { readonly session: Session; readonly attempt: string }[];
}

/** Options of MemoryBackend. */
export interface MemoryBackendOptions {
  /**
   * The first token of every resource, for tests whose output must not vary. By default tokens
   * start at the wall clock, so that they do not repeat when the process starts again.
   * @default the wall clock in microseconds
   */
  readonly firstToken?: bigint | undefined;
}

const BACKEND_OPTIONS: OptionNames<MemoryBackendOptions> = { firstToken: true };

/**
 * The state of memory stores, in place of a server. Several stores can share it, as several clients
 * share one server.
 */
export class MemoryBackend {
  readonly #firstToken: bigint | undefined;
  /** @internal */
  readonly sessions: Map<string, Session> = new Map();
  /** @internal */
  readonly entries: Map<string, Entry> = new Map();
  /**
   * The number of changes. A watcher compares it to detect a change between two waits.
   * @internal
   */
  version = 0;
  readonly #listeners = new Set<() => void>();

  constructor(options: MemoryBackendOptions = {}) {
    checkOptionNames("new MemoryBackend()", options, BACKEND_OPTIONS);
    this.#firstToken =
      options.firstToken === undefined ? undefined : checkToken(options.firstToken);
  }

  /**
   * The token of the next grant (S1). `last` is the newest token of the resource.
   * @internal
   */
  nextToken(last: bigint | undefined, wallMs: number): bigint {
    return nextToken({ last, floor: 1n, clock: this.#firstToken ?? clockToken(wallMs) });
  }

  /** Adds a listener for changes. Returns the function that removes it. @internal */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Call after every change: wakes all waiters and watchers. @internal */
  changed(): void {
    this.version += 1;
    for (const listener of [...this.#listeners]) listener();
  }
}
