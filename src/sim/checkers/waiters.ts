// Who waits for what, as far as it is certain: a place in the queue is when the store's answer has come that says so, and it is
// before those whose first request was sent later.

import type { Traced } from "../world/trace.ts";
import type { Facts, Grant } from "./facts.ts";

export interface Waiter {
  readonly who: string;
  readonly session: string;
  readonly attempt: string;
  /** When its first request left; true instants, as the one when it was told that it is in the queue. */
  readonly askedAt: number;
  queuedAt: number;
  /** Its requests that nobody has answered yet: each may still come, also when it was granted, and take a place in the queue. */
  underWay: number;
  /** It has gone, or its program: it may still have its place at the store, but nobody is there to take the resource. */
  hasLeft: boolean;
}

export class Waiters {
  readonly #of = new Map<string, Map<string, Waiter>>();
  readonly #freedAt = new Map<string, number>();
  /** By program. */
  readonly #listensFrom = new Map<string, number>();

  of(resource: string): Iterable<Waiter> {
    return this.#of.get(resource)?.values() ?? [];
  }

  resources(): Iterable<string> {
    return this.#of.keys();
  }

  get(resource: string, attempt: string): Waiter | undefined {
    return this.#of.get(resource)?.get(attempt);
  }

  /** Since when the resource is free that the grant was of; a true instant. */
  freeSince(grant: Grant, facts: Facts): number {
    const freedAt = this.#freedAt.get(`${grant.resource} ${grant.token}`);
    return freedAt ?? facts.session(grant.session).until;
  }

  /**
   * From when on this waiter hears of every change, a true instant: when it has begun to listen, behind its place in the queue and
   * behind the last trouble of the connection that it listens on.
   */
  hearsFrom({ who, queuedAt }: Waiter, beginMs: number): number {
    const from = this.#listensFrom.get(who) ?? queuedAt;
    return Math.max(queuedAt, from) + beginMs;
  }

  learn(event: Traced): void {
    if (event.kind === "listens") this.#listensFrom.set(event.who, event.from);
    if (event.kind === "asked" && event.resource !== undefined && event.attempt !== undefined)
      this.#asked(event, event.resource, event.attempt);
    if (event.kind === "queued") {
      const waiter = this.get(event.resource, event.attempt);
      if (waiter !== undefined) {
        waiter.queuedAt = Math.min(waiter.queuedAt, event.at);
        waiter.underWay -= 1;
      }
    }
    if (event.kind === "storeGranted") this.#granted(event.resource, event.attempt);
    if (event.kind === "storeFreed") {
      const name = `${event.resource} ${event.token}`;
      if (!this.#freedAt.has(name)) this.#freedAt.set(name, event.at);
    }
    if (event.kind === "crashed" || event.kind === "closed")
      this.#leave(({ who }) => who === event.who);
    if (event.kind === "endedSession" || event.kind === "toldGone")
      this.#leave(({ session }) => session === event.session);
  }

  #asked({ who, session, what, at }: Asked, resource: string, attempt: string): void {
    const of = this.#of.get(resource) ?? new Map<string, Waiter>();
    this.#of.set(resource, of);
    const known = of.get(attempt);
    if (what === "withdraw" && known !== undefined) known.hasLeft = true;
    if (what !== "grant") return;
    if (known !== undefined) {
      known.underWay += 1;
      return;
    }
    const queuedAt = Number.POSITIVE_INFINITY;
    of.set(attempt, { who, session, attempt, askedAt: at, queuedAt, underWay: 1, hasLeft: false });
  }

  #granted(resource: string, attempt: string): void {
    const waiter = this.get(resource, attempt);
    if (waiter === undefined) return;
    waiter.underWay -= 1;
    if (waiter.underWay > 0) waiter.hasLeft = true;
    else this.#of.get(resource)?.delete(attempt);
  }

  #leave(isIt: (waiter: Waiter) => boolean): void {
    for (const of of this.#of.values())
      for (const waiter of of.values()) if (isIt(waiter)) waiter.hasLeft = true;
  }
}

type Asked = Extract<Traced, { kind: "asked" }>;
