// Makes the comparison and the handler one step within this process: a handler starts only when no
// handler with a lower token is running, and no handler with a lower token starts after a higher
// token was admitted.
//
// Requests in progress are counted by resource and token. A request is counted before the guard is
// asked, so a request with a higher token that is admitted in the meantime sees it and waits for
// it. From that admission on, requests with a lower token are rejected here without a call of the
// guard. The number of requests to wait for can therefore only fall: a holder waits for what was in
// progress when it was admitted, and for nothing that arrives later. Requests of one token run side
// by side, so only the first requests of a new holder wait at all.

import type { Clock } from "../../async/clock.ts";
import { StaleTokenError } from "../../core/errors.ts";
import type { Guard, TokenSource } from "../guard.ts";

/** Why a request did not get its turn. */
export class NoTurnError extends Error {
  readonly reason: "crowded" | "timeout" | "gone";

  constructor(reason: NoTurnError["reason"]) {
    super(reason);
    this.reason = reason;
  }
}

export interface Patience {
  readonly waitMs: number;
  /**
   * Registers a callback for when the client closes its connection. Called only for a request that
   * has to wait.
   */
  onGone(leave: () => void): void;
}

/** Limits the memory of waiting requests if a handler does not end. */
const WAITING_MAX = 1_000;
/**
 * The number of idle resources whose highest token is cached. Dropping one is safe, because the
 * guard is asked again.
 */
const IDLE_MAX = 1_000;

interface Waiter {
  readonly token: bigint;
  wake(): void;
}

/** A resource with requests in progress. */
interface Busy {
  /** The highest token that was admitted in this process, or 0. */
  highest: bigint;
  /** The number of requests by token: running, waiting, or being compared by the guard. */
  readonly counts: Map<bigint, number>;
  readonly waiters: Set<Waiter>;
}

export class Turns {
  static readonly #byGuard = new WeakMap<Guard, Turns>();
  readonly #guard: Guard;
  readonly #clock: Clock;
  readonly #busy = new Map<string, Busy>();
  readonly #idle = new Map<string, bigint>();

  constructor(guard: Guard, clock: Clock) {
    this.#guard = guard;
    this.#clock = clock;
  }

  /**
   * The same object for the same guard, so that several httpGuard() with one guard share their
   * turns.
   */
  static forGuard(guard: Guard, clock: Clock): Turns {
    const turns = Turns.#byGuard.get(guard) ?? new Turns(guard, clock);
    Turns.#byGuard.set(guard, turns);
    return turns;
  }

  /**
   * Resolves with the function that ends the turn. Rejects with NoTurnError, or with the error of
   * the guard.
   */
  async enter(source: TokenSource, patience: Patience): Promise<() => void> {
    const { resource, token } = source;
    // Before it is counted: no request may wait for one that cannot be admitted.
    this.#rejectStale(source);
    const busy = this.#count(resource, token);
    let isIn = true;
    const leave = (): void => {
      // Two events may end one turn, and the second must not end the turn of another request.
      if (isIn) this.#discount(resource, busy, token);
      isIn = false;
    };
    try {
      await this.#advance(source);
      if (lowest(busy) < token) {
        await this.#wait(busy, token, patience);
        // A newer holder may have been admitted in the meantime, perhaps by another process.
        await this.compare(source);
      }
      return leave;
    } catch (error) {
      leave();
      throw error;
    }
  }

  /** Compares without waiting for a turn. */
  async compare(source: TokenSource): Promise<void> {
    this.#rejectStale(source);
    await this.#advance(source);
  }

  async #advance(source: TokenSource): Promise<void> {
    await this.#guard.advance(source);
    const { resource, token } = source;
    if (token <= this.#highest(resource)) return;
    const busy = this.#busy.get(resource);
    if (busy === undefined) {
      this.#remember(resource, token);
      return;
    }
    busy.highest = token;
    wake(busy);
  }

  #highest(resource: string): bigint {
    return this.#busy.get(resource)?.highest ?? this.#idle.get(resource) ?? 0n;
  }

  #rejectStale({ resource, token }: TokenSource): void {
    const highest = this.#highest(resource);
    if (token < highest) throw StaleTokenError.from({ resource, offered: token, highest });
  }

  #count(resource: string, token: bigint): Busy {
    let busy = this.#busy.get(resource);
    if (busy === undefined) {
      busy = { highest: this.#highest(resource), counts: new Map(), waiters: new Set() };
      this.#busy.set(resource, busy);
      this.#idle.delete(resource);
    }
    busy.counts.set(token, (busy.counts.get(token) ?? 0) + 1);
    return busy;
  }

  #discount(resource: string, busy: Busy, token: bigint): void {
    const left = (busy.counts.get(token) ?? 0) - 1;
    if (left > 0) {
      busy.counts.set(token, left);
      return;
    }
    busy.counts.delete(token);
    if (busy.counts.size > 0) {
      wake(busy);
      return;
    }
    this.#busy.delete(resource);
    this.#remember(resource, busy.highest);
  }

  #remember(resource: string, highest: bigint): void {
    if (highest === 0n) return;
    this.#idle.set(resource, highest);
    if (this.#idle.size <= IDLE_MAX) return;
    const [oldest = resource] = this.#idle.keys();
    this.#idle.delete(oldest);
  }

  #wait(busy: Busy, token: bigint, { waitMs, onGone }: Patience): Promise<void> {
    if (busy.waiters.size >= WAITING_MAX) return Promise.reject(new NoTurnError("crowded"));
    return new Promise((resolve, reject) => {
      const stop = (reason: NoTurnError["reason"]) => (): void => {
        end();
        reject(new NoTurnError(reason));
      };
      const timer = this.#clock.setTimer(stop("timeout"), waitMs);
      const end = (): void => {
        busy.waiters.delete(waiter);
        timer.cancel();
      };
      const waiter: Waiter = {
        token,
        wake: () => {
          end();
          resolve();
        },
      };
      busy.waiters.add(waiter);
      onGone(stop("gone"));
    });
  }
}

function lowest({ counts }: Busy): bigint {
  let found: bigint | undefined;
  for (const token of counts.keys()) if (found === undefined || token < found) found = token;
  return found ?? 0n;
}

/** Wakes the requests whose turn has come, and those that a higher token has made stale. */
function wake(busy: Busy): void {
  const first = lowest(busy);
  for (const waiter of busy.waiters) {
    if (waiter.token <= first || waiter.token < busy.highest) waiter.wake();
  }
}
