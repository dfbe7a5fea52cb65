// The leader's list of sessions, and when each ends by the leader's clock. A session that was heard of lives for its timeout,
// rounded up to the next tick: those of one tick end together.

import type { Member } from "./member.ts";

export interface Session {
  readonly id: number;
  timeoutMs: number;
  /** What was promised. */
  expiresAt: number;
  /** The tick at which it is looked for: never before the promise, up to a tick behind it. */
  endsAt: number;
  /** The server whose connection has it; requests over another one's are refused. */
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

  /** Undefined where there is no such session. */
  touch(id: number, timeoutMs: number): Session | undefined {
    const session = this.#sessions.get(id);
    if (session === undefined) return undefined;
    session.timeoutMs = timeoutMs;
    session.expiresAt = this.#now() + timeoutMs;
    session.endsAt = (Math.floor(session.expiresAt / this.#tickMs) + 1) * this.#tickMs;
    return session;
  }

  /** Those that are over. */
  due(): Session[] {
    const now = this.#now();
    return [...this.#sessions.values()].filter(({ endsAt }) => endsAt <= now);
  }

  forget(id: number): void {
    this.#sessions.delete(id);
  }
}
