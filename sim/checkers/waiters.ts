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
  /** When its place was last taken away from it: what was asked before says nothing of where it stands now. */
  passedAt: number;
  /** Its requests that nobody has answered yet: each may still come, also when it was granted, and take a place in the queue. */
  underWay: number;
  /** It has gone, or its program: it may still have its place at the store, but nobody is there to take the resource. */
  hasLeft: boolean;
}

export class Waiters {
  readonly #of = new Map<string, Map<string, Waiter>>();
  readonly #freed = new Map<string, Freed>();
  readonly #expired = new Map<string, number>();
  readonly #unheard = new Map<string, Unheard>();
  /** By attempt. */
  readonly #firstAskedAt = new Map<string, number>();
  /** By program. */
  readonly #listensFrom = new Map<string, number>();

  of(resource: string): Iterable<Waiter> {
    return this.#of.get(resource)?.values() ?? [];
  }

  resources(): Iterable<string> {
    return this.#of.keys();
  }

  /** When one was last passed over. */
  lastPassedAt(resource: string): number {
    return Math.max(...[...this.of(resource)].map(({ passedAt }) => passedAt));
  }

  get(resource: string, attempt: string): Waiter | undefined {
    return this.#of.get(resource)?.get(attempt);
  }

  /** Since when the resource is free that the grant was of; a true instant. */
  freeSince(grant: Grant, facts: Facts): number {
    const { session } = grant;
    const freedAt = this.#freed.get(nameOf(grant))?.at;
    return freedAt ?? this.#expired.get(session) ?? facts.session(session).until;
  }

  /** When the first in line began to have its head start: it may have been before anybody could see it. */
  headStartSince(grant: Grant, facts: Facts): number {
    return this.#freed.get(nameOf(grant))?.readAt ?? this.freeSince(grant, facts);
  }

  /** How much later the program may notice what happened then: 0 where it was told. */
  unheardMs(who: string, then: number): number {
    return this.#unheard.get(`${who} ${then}`)?.looksWithinMs ?? 0;
  }

  /**
   * From when on this waiter hears of every change, a true instant: when it has begun to listen, behind its place in the queue and
   * behind the last trouble of the connection that it listens on.
   */
  hearsFrom({ who, queuedAt }: Waiter, beginMs: number): number {
    const from = this.#listensFrom.get(who) ?? queuedAt;
    return Math.max(queuedAt, from) + beginMs;
  }

  /** How many may have been before this one when it came. */
  whenItCame(waiter: Waiter, resource: string, facts: Facts): number {
    let count = 0;
    for (const other of this.of(resource))
      if (other !== waiter && other.askedAt <= waiter.queuedAt)
        count += facts.session(other.session).until > waiter.queuedAt ? 1 : 0;
    return count;
  }

  learn(event: Traced): void {
    if (event.kind === "listens") this.#listensFrom.set(event.who, event.from);
    if (event.kind === "asked" && event.resource !== undefined && event.attempt !== undefined)
      this.#asked(event, event.resource, event.attempt);
    if (event.kind === "queued") {
      const waiter = this.get(event.resource, event.attempt);
      if (waiter !== undefined) {
        waiter.underWay -= 1;
        if (event.sentAtTrue >= waiter.passedAt)
          waiter.queuedAt = Math.min(waiter.queuedAt, event.at);
      }
    }
    if (event.kind === "storePassedOver") {
      const waiter = this.get(event.resource, event.attempt);
      if (waiter !== undefined)
        Object.assign(waiter, { queuedAt: Number.POSITIVE_INFINITY, passedAt: event.at });
    }
    if (event.kind === "storeExpired") this.#expired.set(event.session, event.until);
    if (event.kind === "storeGranted") this.#granted(event.resource, event.attempt);
    if (event.kind === "storeFreed") {
      const name = nameOf(event);
      if (!this.#freed.has(name)) this.#freed.set(name, event);
    }
    if (event.kind === "reportLost") this.#unheard.set(`${event.who} ${event.at}`, event);
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
    // One that was granted, and ended before anybody heard of it, is asked for on: it is the same wait.
    const askedAt = this.#firstAskedAt.get(attempt) ?? at;
    this.#firstAskedAt.set(attempt, askedAt);
    const queuedAt = Number.POSITIVE_INFINITY;
    const passedAt = Number.NEGATIVE_INFINITY;
    const place = { askedAt, queuedAt, passedAt };
    of.set(attempt, { who, session, attempt, ...place, underWay: 1, hasLeft: false });
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

function nameOf({ resource, token }: Pick<Grant, "resource" | "token">): string {
  return `${resource} ${token}`;
}

type Freed = Extract<Traced, { kind: "storeFreed" }>;
type Unheard = Extract<Traced, { kind: "reportLost" }>;
type Asked = Extract<Traced, { kind: "asked" }>;
