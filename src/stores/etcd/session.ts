// What this process knows about its own sessions: their attempts, from the first request to the end
// of the lease. etcd decides which attempt holds a resource. This file only remembers the answers,
// so that renewals and notifications can report them.

import type { Timer } from "../../async/clock.ts";
import type { Names, SessionNames } from "../../clients/etcd/names.ts";
import type { AttemptRequest, Grant, LeaseRef, SessionEvents } from "../contract.ts";

/** One attempt of a session of this process. */
export interface Attempt {
  readonly session: Session;
  readonly resource: string;
  readonly id: string;
  readonly rank: number | undefined;
  /** Its record, without the time of the grant. */
  readonly record: string;
  /** `asked`: no answer has said yet that the attempt has a key in the queue. */
  state: "asked" | "queued" | "held" | "ended";
  /**
   * Requests that may still arrive at etcd. If there are any, its end leaves a mark; see grant.ts.
   */
  unanswered: number;
  /** Its key in the queue, and the create revision of that key. */
  key: Buffer;
  revision: bigint;
  /** A create revision that the attempt has given up, or is about to. It never becomes a token. */
  givenUp: bigint | undefined;
  /** When this process learned that the attempt holds the resource, by the monotonic clock. */
  heldSince: number;
  /** The note by which it has notified the holder that it waits. */
  note: Buffer | undefined;
}

/** A session remembers this many ended attempts. No request of an older one is in flight. */
const ENDED_MAX = 1_000;
/** A session has this many marks. No copy of a request is delayed for that many failures. */
const MARKS_MAX = 256;

export class Session {
  readonly id: string;
  readonly names: SessionNames;
  readonly events: SessionEvents | undefined;
  /** etcd keeps the session until this instant at least. */
  aliveUntil = 0;
  isEnded = false;
  readonly attempts: Map<string, Attempt> = new Map();
  readonly waiting: Set<Attempt> = new Set();
  /** Its leases by resource, the oldest first. */
  readonly held: Map<string, Attempt> = new Map();
  /** Leases of a handoff that no renewal has accepted. */
  readonly unaccepted: Set<Attempt> = new Set();
  /** Leases of a handoff whose record does not contain the time of the grant. */
  readonly unstamped: Set<Attempt> = new Set();
  readonly ended: Set<string> = new Set();
  readonly #marks = new Set<string>();
  /** For wait.ts: opens the watch of the session, and the function that closes it. */
  timer: Timer | undefined;
  closeWatch: (() => void) | undefined;

  constructor(id: string, names: SessionNames, events: SessionEvents | undefined) {
    this.id = id;
    this.names = names;
    this.events = events;
  }

  begin(request: AttemptRequest & { readonly rank?: number | undefined }, record: string): Attempt {
    const { resource, attempt: id, rank } = request;
    const known = this.attempts.get(id);
    if (known !== undefined) return known;
    const attempt: Attempt = {
      session: this,
      resource,
      id,
      rank,
      record,
      state: "asked",
      unanswered: 0,
      key: Buffer.alloc(0),
      revision: 0n,
      givenUp: undefined,
      heldSince: 0,
      note: undefined,
    };
    this.attempts.set(id, attempt);
    return attempt;
  }

  queued(attempt: Attempt): void {
    attempt.state = "queued";
    this.waiting.add(attempt);
  }

  granted(attempt: Attempt, now: number): void {
    attempt.state = "held";
    attempt.heldSince = now;
    this.waiting.delete(attempt);
    this.held.set(attempt.resource, attempt);
  }

  end(attempt: Attempt): void {
    attempt.state = "ended";
    this.waiting.delete(attempt);
    this.unaccepted.delete(attempt);
    this.unstamped.delete(attempt);
    if (this.held.get(attempt.resource) === attempt) this.held.delete(attempt.resource);
    this.attempts.delete(attempt.id);
    addLimited(this.ended, attempt.id, ENDED_MAX);
  }

  findLease({ resource, token }: LeaseRef): Attempt | undefined {
    const attempt = this.held.get(resource);
    return attempt?.revision === token ? attempt : undefined;
  }

  /** Remembers that the attempt has a mark. Returns the attempt whose mark is no longer needed. */
  addMark(attempt: string): string | undefined {
    return addLimited(this.#marks, attempt, MARKS_MAX);
  }
}

export class Sessions {
  readonly #names: Names;
  readonly #sessions = new Map<string, Session>();

  constructor(names: Names) {
    this.#names = names;
  }

  /**
   * The session, or a new object if this process has not opened it: etcd knows whether it exists.
   */
  find(id: string): Session {
    return this.#sessions.get(id) ?? new Session(id, this.#names.session(id), undefined);
  }

  add(id: string, events: SessionEvents | undefined, aliveUntil: number): Session {
    const session = new Session(id, this.#names.session(id), events);
    session.aliveUntil = aliveUntil;
    this.#sessions.set(id, session);
    return session;
  }

  /** The sessions that have expired although no request ended them. */
  expired(now: number): Session[] {
    return [...this.#sessions.values()].filter(({ aliveUntil }) => aliveUntil < now);
  }

  remove(session: Session): void {
    session.isEnded = true;
    if (this.#sessions.get(session.id) === session) this.#sessions.delete(session.id);
  }

  [Symbol.iterator](): Iterator<Session> {
    return this.#sessions.values();
  }
}

export function toGrant({ resource, id, revision }: Attempt): Grant {
  return { resource, token: revision, attempt: id };
}

/** Adds to a set of limited size. Returns the oldest element if it had to be removed. */
function addLimited(set: Set<string>, element: string, max: number): string | undefined {
  set.add(element);
  const [oldest] = set;
  if (set.size <= max || oldest === undefined) return undefined;
  set.delete(oldest);
  return oldest;
}
