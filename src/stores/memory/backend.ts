// The state of memory stores in place of a server, and the steps that change it. Each method is one
// atomic step, because nothing else runs in between. This is the reference for what the requests of
// the contract do: the stores on real backends do the same in their own language.

import { clockToken, nextToken } from "../../core/era.ts";
import { checkOptionNames, type OptionNames } from "../../core/options.ts";
import { checkToken } from "../../core/token.ts";
import type {
  AttemptRequest,
  Grant,
  GrantOutcome,
  GrantRequest,
  LeaseRef,
  OpenSessionRequest,
  ReleaseRequest,
  RenewOutcome,
  RenewRequest,
  RevokeRequest,
  SessionEvents,
} from "../contract.ts";
import { findNext, findPlace } from "../queue-policy.ts";

export interface Session {
  readonly id: string;
  readonly ttlMs: number;
  readonly quietAfterMs: number;
  readonly events: SessionEvents | undefined;
  renewedAt: number;
  /** Its leases, by resource. */
  readonly held: Map<string, Entry>;
  /** What it waits for, by attempt. */
  readonly waiting: Map<string, Entry>;
  /** Its leases that were granted by a handoff and not accepted yet, by resource. */
  readonly unaccepted: Map<string, Grant>;
  /** Its leases that were revoked and not acknowledged yet, by `toKey`. */
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
  held: Held | undefined;
  readonly queue: Waiter[];
}

interface Waiter {
  readonly session: Session;
  readonly attempt: string;
  readonly holderId: string;
  readonly value: unknown;
  readonly rank: number;
}

interface Held extends Waiter {
  readonly token: bigint;
  readonly grantedAt: number;
}

interface HandOff {
  /** The session whose request causes the handoff. It is not quiet. */
  readonly requester?: Session;
  /** The attempt whose grant the answer to the request reports, so that no event needs to. */
  readonly answered?: string;
  readonly preferred?: string | undefined;
}

/** The time of a step, by the clock of the store that takes it. */
export interface Now {
  /** The monotonic clock, in milliseconds. */
  readonly now: number;
  /** The wall clock, in milliseconds. */
  readonly wallMs: number;
}

/**
 * How many granted attempts a session remembers. A copy of a request that arrives after this many
 * later grants to its session is assumed to be lost.
 */
const REMEMBERED_MAX = 1_000;

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
  readonly #listeners = new Set<() => void>();
  /** @internal */
  readonly sessions: Map<string, Session> = new Map();
  /** @internal */
  readonly entries: Map<string, Entry> = new Map();

  constructor(options: MemoryBackendOptions = {}) {
    checkOptionNames("new MemoryBackend()", options, BACKEND_OPTIONS);
    this.#firstToken =
      options.firstToken === undefined ? undefined : checkToken(options.firstToken);
  }

  /** Adds a listener for changes. Returns the function that removes it. @internal */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** @internal */
  openSession(request: OpenSessionRequest, { now }: Now): void {
    const { sessionId: id, ttlMs, quietAfterMs = ttlMs, events } = request;
    this.sessions.set(id, {
      id,
      ttlMs,
      // An expired session is quiet too.
      quietAfterMs: Math.min(quietAfterMs, ttlMs),
      events,
      renewedAt: now,
      held: new Map(),
      waiting: new Map(),
      unaccepted: new Map(),
      revoked: new Map(),
      granted: new Set(),
    });
  }

  /** @internal */
  grant(request: GrantRequest, at: Now): GrantOutcome {
    const { resource, attempt, holderId, value, rank = 0 } = request;
    const session = this.#findSession(request.sessionId, at);
    if (session === undefined) return { kind: "gone" };
    const entry = this.#findEntry(resource);
    if (session.granted.has(attempt) || entry.lastAttempt === attempt) {
      // A repeated request: its first copy was granted.
      const { held } = entry;
      const isHeld = held?.attempt === attempt && held.session === session;
      return isHeld ? { kind: "granted", token: held.token } : { kind: "ended" };
    }
    if (!session.waiting.has(attempt)) {
      const place = findPlace(entry.queue, rank);
      entry.queue.splice(place, 0, { session, attempt, holderId, value, rank });
      session.waiting.set(attempt, entry);
    }
    this.#handOff(entry, at, { requester: session, answered: attempt });
    const { held } = entry;
    if (held?.attempt === attempt) {
      // The answer reports the grant, so renewals need not.
      session.unaccepted.delete(resource);
      return { kind: "granted", token: held.token };
    }
    if (!request.queue) {
      leaveQueue(entry, session, attempt);
      return { kind: "busy", holderId: held?.holderId };
    }
    if (held !== undefined) report(held.session, (events) => events.wanted(toRef(entry, held)));
    return { kind: "queued", holderId: held?.holderId };
  }

  /** @internal */
  renew(request: RenewRequest, at: Now): RenewOutcome {
    const session = this.#findSession(request.sessionId, at);
    if (session === undefined) return { kind: "gone" };
    session.renewedAt = at.now;
    for (const lost of request.withdrawn) this.withdraw({ ...request, ...lost }, at);
    for (const ref of request.acknowledged) session.revoked.delete(toKey(ref));
    for (const { resource, token } of request.accepted ?? [])
      if (session.unaccepted.get(resource)?.token === token) session.unaccepted.delete(resource);
    for (const entry of new Set(session.waiting.values()))
      this.#handOff(entry, at, { requester: session });
    const wanted = [...session.held.values()].filter(({ queue }) => queue.length > 0);
    return {
      kind: "renewed",
      ttlMs: session.ttlMs,
      gone: [...session.revoked.values()],
      granted: [...session.unaccepted.values()],
      wanted: wanted.flatMap((entry) => (entry.held ? [toRef(entry, entry.held)] : [])),
      waiting: session.waiting.size,
    };
  }

  /** Whether the lease was held and is free now. @internal */
  release({ sessionId, resource, token, preferred }: ReleaseRequest, at: Now): boolean {
    const entry = this.entries.get(resource);
    const held = entry && this.findHeld(entry, at);
    if (!entry || held?.session.id !== sessionId || held.token !== token) return false;
    this.#free(entry, held, at, preferred);
    return true;
  }

  /** @internal */
  withdraw({ sessionId, resource, attempt }: AttemptRequest, at: Now): void {
    const entry = this.entries.get(resource);
    const session = this.sessions.get(sessionId);
    if (!entry || !session) return;
    leaveQueue(entry, session, attempt);
    const held = this.findHeld(entry, at);
    if (held?.session === session && held.attempt === attempt) this.#free(entry, held, at);
  }

  /** Whether the lease was held and is revoked now. @internal */
  revoke({ resource, token }: RevokeRequest, at: Now): boolean {
    const entry = this.entries.get(resource);
    const held = entry && this.findHeld(entry, at);
    if (!entry || held?.token !== token) return false;
    const ref = toRef(entry, held);
    held.session.revoked.set(toKey(ref), ref);
    report(held.session, (events) => events.lost(ref));
    this.#free(entry, held, at);
    return true;
  }

  /** @internal */
  endSession(id: string, at: Now): void {
    const session = this.sessions.get(id);
    if (session === undefined) return;
    this.sessions.delete(id);
    for (const [attempt, entry] of session.waiting) leaveQueue(entry, session, attempt);
    for (const entry of session.held.values())
      if (entry.held !== undefined) this.#free(entry, entry.held, at);
  }

  /** Hands the resource off if its holder has expired. @internal */
  checkExpiry(entry: Entry, at: Now): void {
    if (this.findHeld(entry, at) === undefined) this.#handOff(entry, at);
  }

  /** The holder, unless its session has expired by the store's clock (S4). @internal */
  findHeld(entry: Entry, at: Now): Held | undefined {
    if (entry.held !== undefined) this.#findSession(entry.held.session.id, at);
    return entry.held;
  }

  /** Undefined if the session is unknown or has expired. Ends it in the latter case. */
  #findSession(id: string, at: Now): Session | undefined {
    const session = this.sessions.get(id);
    if (session === undefined || at.now < expiresAt(session)) return session;
    this.endSession(id, at);
    return undefined;
  }

  #findEntry(resource: string): Entry {
    let entry = this.entries.get(resource);
    if (entry === undefined) {
      entry = { resource, token: undefined, lastAttempt: undefined, held: undefined, queue: [] };
      this.entries.set(resource, entry);
    }
    return entry;
  }

  #free(entry: Entry, held: Held, at: Now, preferred?: string): void {
    entry.held = undefined;
    held.session.held.delete(entry.resource);
    held.session.unaccepted.delete(entry.resource);
    this.#handOff(entry, at, { preferred });
    this.#changed();
  }

  /** Grants the resource to the next waiter if it is free. The rule is that of queue-policy.ts. */
  #handOff(entry: Entry, at: Now, { requester, answered, preferred }: HandOff = {}): void {
    if (this.findHeld(entry, at) !== undefined) return;
    const mayBeGranted = ({ session }: Waiter): boolean =>
      session === requester || at.now < session.renewedAt + session.quietAfterMs;
    const next = findNext(entry.queue, mayBeGranted, preferred);
    if (next === undefined) return;
    const { session, attempt } = next;
    leaveQueue(entry, session, attempt);
    const token = this.#nextToken(entry.token, at.wallMs);
    entry.token = token;
    entry.lastAttempt = attempt;
    entry.held = { ...next, token, grantedAt: at.now };
    session.held.set(entry.resource, entry);
    remember(session.granted, attempt);
    const grant = { resource: entry.resource, token, attempt };
    session.unaccepted.set(entry.resource, grant);
    if (attempt !== answered) report(session, (events) => events.granted(grant));
    this.#changed();
  }

  /** The token of the next grant (S1). `last` is the newest token of the resource. */
  #nextToken(last: bigint | undefined, wallMs: number): bigint {
    return nextToken({ last, floor: 1n, clock: this.#firstToken ?? clockToken(wallMs) });
  }

  #changed(): void {
    for (const listener of [...this.#listeners]) listener();
  }
}

/** The instant, by the store's clock, at which the session expires unless it is renewed. */
export function expiresAt({ renewedAt, ttlMs }: Session): number {
  return renewedAt + ttlMs;
}

/** Reports a fact after the step, so that what the holder does about it is a step of its own. */
function report({ events }: Session, tell: (events: SessionEvents) => void): void {
  if (events !== undefined) queueMicrotask(() => tell(events));
}

function toRef({ resource }: Entry, { token }: Held): LeaseRef {
  return { resource, token };
}

function toKey({ resource, token }: LeaseRef): string {
  return `${token} ${resource}`;
}

function remember(granted: Set<string>, attempt: string): void {
  granted.add(attempt);
  const [oldest] = granted;
  if (granted.size > REMEMBERED_MAX && oldest !== undefined) granted.delete(oldest);
}

function leaveQueue(entry: Entry, session: Session, attempt: string): void {
  if (!session.waiting.delete(attempt)) return;
  const index = entry.queue.findIndex((waiter) => waiter.attempt === attempt);
  if (index >= 0) entry.queue.splice(index, 1);
}
