// Reconstructs the queue of each resource from the trace, as far as it is certain, for the checkers
// in handoff.ts. It reports nothing itself. A waiter is in the queue once the store has confirmed
// it, and it is ahead of every waiter that sent its first request after that.

import type { TraceEvent } from "../world/trace.ts";
import type { Facts, Grant } from "./facts.ts";

export interface Waiter {
  readonly who: string;
  readonly session: string;
  readonly attempt: string;
  /** The true instant at which it sent its first request. */
  readonly askedAt: number;
  /** The true instant at which the store confirmed that it is in the queue. */
  queuedAt: number;
  /** Its unanswered requests. Each may still arrive and enter the queue, even after a grant. */
  pendingRequests: number;
  /**
   * It withdrew, or its session or program ended. It may still be in the store's queue, but will
   * not take the resource.
   */
  hasLeft: boolean;
}

export class Waiters {
  /** By resource, then by attempt. */
  readonly #waiters = new Map<string, Map<string, Waiter>>();
  /** The true instants at which grants were freed. */
  readonly #freed = new Map<string, number>();
  /** By session. */
  readonly #expired = new Map<string, number>();
  /** The attempts of the newest grants, by resource. */
  readonly #holders = new Map<string, string>();
  /** By program. */
  readonly #connectedFrom = new Map<string, number>();
  /** By attempt. */
  readonly #firstAskedAt = new Map<string, number>();

  waitersFor(resource: string): Iterable<Waiter> {
    return this.#waiters.get(resource)?.values() ?? [];
  }

  resources(): Iterable<string> {
    return this.#waiters.keys();
  }

  get(resource: string, attempt: string): Waiter | undefined {
    return this.#waiters.get(resource)?.get(attempt);
  }

  /** The true instant at which the grant ended. */
  freeSince(grant: Grant, facts: Facts): number {
    const { session } = grant;
    const freedAt = this.#freed.get(toKey(grant));
    return freedAt ?? this.#expired.get(session) ?? facts.session(session).until;
  }

  /** The true instant from which the waiter's notification connection works. */
  connectedFrom({ who }: Waiter): number {
    return this.#connectedFrom.get(who) ?? Number.NEGATIVE_INFINITY;
  }

  apply(event: TraceEvent): void {
    if (event.kind === "listens") this.#connectedFrom.set(event.who, event.from);
    if (event.kind === "asked" && event.resource !== undefined && event.attempt !== undefined)
      this.#asked(event, event.resource, event.attempt);
    // The answer to a repeated request may say "queued" although the attempt was granted.
    if (event.kind === "queued" && this.#holders.get(event.resource) === event.attempt)
      this.#waiters.get(event.resource)?.delete(event.attempt);
    if (event.kind === "queued") {
      const waiter = this.get(event.resource, event.attempt);
      if (waiter !== undefined) {
        waiter.pendingRequests -= 1;
        waiter.queuedAt = Math.min(waiter.queuedAt, event.at);
      }
    }
    if (event.kind === "storeExpired") this.#expired.set(event.session, event.until);
    if (event.kind === "storeGranted") {
      this.#holders.set(event.resource, event.attempt);
      this.#granted(event.resource, event.attempt);
    }
    if (event.kind === "storeFreed") {
      const name = toKey(event);
      if (!this.#freed.has(name)) this.#freed.set(name, event.at);
    }
    if (event.kind === "crashed" || event.kind === "closed")
      this.#leave(({ who }) => who === event.who);
    if (event.kind === "endedSession" || event.kind === "toldGone")
      this.#leave(({ session }) => session === event.session);
  }

  #asked({ who, session, what, at }: Asked, resource: string, attempt: string): void {
    const waiters = this.#waiters.get(resource) ?? new Map<string, Waiter>();
    this.#waiters.set(resource, waiters);
    const known = waiters.get(attempt);
    if (what === "withdraw" && known !== undefined) known.hasLeft = true;
    if (what !== "grant") return;
    if (known !== undefined) {
      known.pendingRequests += 1;
      return;
    }
    // A grant may end before its holder learns of it. The holder then retries, in the same wait.
    const askedAt = this.#firstAskedAt.get(attempt) ?? at;
    this.#firstAskedAt.set(attempt, askedAt);
    const queuedAt = Number.POSITIVE_INFINITY;
    waiters.set(attempt, {
      who,
      session,
      attempt,
      askedAt,
      queuedAt,
      pendingRequests: 1,
      hasLeft: false,
    });
  }

  #granted(resource: string, attempt: string): void {
    const waiter = this.get(resource, attempt);
    if (waiter === undefined) return;
    waiter.pendingRequests -= 1;
    if (waiter.pendingRequests > 0) waiter.hasLeft = true;
    else this.#waiters.get(resource)?.delete(attempt);
  }

  #leave(matches: (waiter: Waiter) => boolean): void {
    for (const waiters of this.#waiters.values())
      for (const waiter of waiters.values()) if (matches(waiter)) waiter.hasLeft = true;
  }
}

function toKey({ resource, token }: Pick<Grant, "resource" | "token">): string {
  return `${resource} ${token}`;
}

type Asked = Extract<TraceEvent, { kind: "asked" }>;
