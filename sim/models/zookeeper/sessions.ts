// The leader's table of sessions, and when each one ends by the leader's clock. A session that was
// active lives for its timeout, rounded up to the next tick, so all sessions of one tick end
// together.

import type { Member } from "./member.ts";

export interface Session {
  readonly id: number;
  timeoutMs: number;
  /** The end that was promised to the client. */
  expiresAt: number;
  /**
   * The tick at which the leader checks it: never before the promised end, and at most one tick
   * after it.
   */
  endsAt: number;
  /** The server that has the session's connection. Requests through another server are rejected. */
  owner: Member | undefined;
}

export class Sessions {
  readonly #tickMs: number;
  readonly #now: () => number;
  readonly #sessions = new Map<number, Session>();

  constructor(tickMs: number, now: () => number) {
    this.#tickMs = tickMs;
    this.#now = now;
  }

  get(id: number): Session | undefined {
    return this.#sessions.get(id);
  }

  all(): Iterable<Session> {
    return this.#sessions.values();
  }

  start(id: number, timeoutMs: number, owner: Member | undefined): void {
    const session = { id, timeoutMs, expiresAt: 0, endsAt: 0, owner };
    this.#sessions.set(id, session);
    this.touch(id, timeoutMs);
  }

  /** Returns undefined if there is no such session. */
  touch(id: number, timeoutMs: number): Session | undefined {
    const session = this.#sessions.get(id);
    if (session === undefined) return undefined;
    session.timeoutMs = timeoutMs;
    session.expiresAt = this.#now() + timeoutMs;
    session.endsAt = (Math.floor(session.expiresAt / this.#tickMs) + 1) * this.#tickMs;
    return session;
  }

  /** Returns the sessions that have ended. */
  due(): Session[] {
    const now = this.#now();
    return [...this.#sessions.values()].filter(({ endsAt }) => endsAt <= now);
  }

  forget(id: number): void {
    this.#sessions.delete(id);
  }
}
