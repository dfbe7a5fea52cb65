// The store in memory, for tests and for coordination inside one process. It is also the reference
// for what each request of the contract does: other stores must give the same answers, with one
// exception. This store remembers more granted attempts than the contract requires (see
// `Session.granted`).

import type { Clock, Timer } from "../../async/clock.ts";
import { linkSignals } from "../../async/signals.ts";
import { StoreUnavailableError } from "../../core/errors.ts";
import {
  type AttemptRequest,
  type GrantOutcome,
  type GrantRequest,
  type Guarantees,
  HEAD_START_MS,
  type HolderView,
  type LeaseRef,
  type LeaseView,
  type ListPage,
  type ListRequest,
  type OpenSessionRequest,
  type OpenStore,
  type ReadAnswer,
  type ReadRequest,
  type ReleaseOutcome,
  type ReleaseRequest,
  type RenewOutcome,
  type RenewRequest,
  type RevokeOutcome,
  type RevokeRequest,
  type SessionRequest,
  type Store,
  type WatchRequest,
} from "../contract.ts";
import { changes, firstExpiryMs } from "../shared/changes.ts";
import { type Entry, MemoryBackend, type MemoryBackendOptions, type Session } from "./backend.ts";

export { MemoryBackend, type MemoryBackendOptions };

/**
 * How many granted attempts a session remembers. A copy of a request that arrives after this many
 * later grants to its session is assumed to be lost.
 */
const REMEMBERED_MAX = 1_000;

/** A store in this process. Pass the same backend to several stores to let them compete. */
export function memoryStore(backend: MemoryBackend = new MemoryBackend()): OpenStore {
  return async (parts) => new MemoryStore(backend, parts.clock);
}

class MemoryStore implements Store {
  readonly guarantees: Guarantees = {
    store: "memory",
    tokenSource: "a counter per resource that starts at the wall clock, in this process",
    tokenFalls: "when the process ends and the wall clock was set back",
    expiryClock: "the process's monotonic clock",
    ttlStepMs: 1,
    expiryLagMs: 0,
    wakeUp: "push",
    fifo: true,
    durable: false,
  };
  readonly #backend: MemoryBackend;
  readonly #clock: Clock;
  readonly #closing = new AbortController();

  constructor(backend: MemoryBackend, clock: Clock) {
    this.#backend = backend;
    this.#clock = clock;
  }

  async openSession(request: OpenSessionRequest): Promise<{ readonly ttlMs: number }> {
    this.#checkOpen();
    const { sessionId: id, ttlMs } = request;
    this.#backend.sessions.set(id, {
      id,
      ttlMs,
      expiresAt: this.#clock.now() + ttlMs,
      revoked: new Map(),
      granted: new Set(),
    });
    return { ttlMs };
  }

  async grant(request: GrantRequest): Promise<GrantOutcome> {
    this.#checkOpen();
    const session = this.#findSession(request.sessionId);
    if (session === undefined) return { kind: "gone" };
    const entry = this.#findEntry(request.resource);
    const held = this.#findHeld(entry);
    // A repeated request: its first copy was granted.
    if (entry.lastAttempt === request.attempt) {
      return held?.session === session ? { kind: "granted", token: held.token } : { kind: "ended" };
    }
    if (session.granted.has(request.attempt)) return { kind: "ended" };
    if (held !== undefined || !this.#mayTake(entry, request.attempt)) {
      if (request.queue) joinQueue(entry, session, request.attempt);
      return { kind: "busy", holderId: held?.holderId };
    }
    const token = this.#backend.nextToken(entry.token, this.#clock.wallNow());
    entry.token = token;
    entry.lastAttempt = request.attempt;
    remember(session.granted, request.attempt);
    const { holderId, value } = request;
    entry.held = { session, token, holderId, value, grantedAt: this.#clock.now() };
    leaveQueue(entry, session.id, request.attempt);
    this.#backend.changed();
    return { kind: "granted", token };
  }

  async renew(request: RenewRequest): Promise<RenewOutcome> {
    this.#checkOpen();
    const session = this.#findSession(request.sessionId);
    if (session === undefined) return { kind: "gone" };
    for (const lost of request.withdrawn) await this.withdraw({ ...request, ...lost });
    for (const ref of request.acknowledged) session.revoked.delete(toKey(ref));
    session.expiresAt = this.#clock.now() + session.ttlMs;
    return { kind: "renewed", ttlMs: session.ttlMs, gone: [...session.revoked.values()] };
  }

  async release(request: ReleaseRequest): Promise<ReleaseOutcome> {
    this.#checkOpen();
    const entry = this.#backend.entries.get(request.resource);
    const held = entry && this.#findHeld(entry);
    if (!entry || held?.session.id !== request.sessionId || held.token !== request.token) {
      return { kind: "notHeld" };
    }
    this.#free(entry);
    return { kind: "released" };
  }

  async withdraw(request: AttemptRequest): Promise<void> {
    this.#checkOpen();
    const entry = this.#backend.entries.get(request.resource);
    if (!entry) return;
    leaveQueue(entry, request.sessionId, request.attempt);
    const held = this.#findHeld(entry);
    if (held?.session.id === request.sessionId && entry.lastAttempt === request.attempt)
      this.#free(entry);
    else this.#backend.changed();
  }

  async endSession(request: SessionRequest): Promise<void> {
    this.#checkOpen();
    if (this.#backend.sessions.delete(request.sessionId)) this.#backend.changed();
  }

  untilFree(request: AttemptRequest & { readonly signal: AbortSignal }): Promise<void> {
    const entry = this.#findEntry(request.resource);
    return this.#until(request.signal, () => {
      const held = this.#findHeld(entry);
      if (held !== undefined) return held.session.expiresAt;
      return this.#mayTake(entry, request.attempt) ? undefined : entry.freeSince + HEAD_START_MS;
    });
  }

  async read(request: ReadRequest): Promise<ReadAnswer> {
    this.#checkOpen();
    const evidence = { consistency: request.consistency, ageMs: 0 };
    return { resource: request.resource, holder: this.#readHolder(request.resource), evidence };
  }

  async list(request: ListRequest): Promise<ListPage> {
    this.#checkOpen();
    const { prefix, after } = request;
    const held = this.#listHeld(prefix).filter(
      (view) => after === undefined || view.resource > after,
    );
    const leases = held.slice(0, request.limit);
    return { leases, next: held.length > request.limit ? leases.at(-1)?.resource : undefined };
  }

  async *watch(request: WatchRequest): AsyncIterable<LeaseView> {
    const seen = new Map<string, bigint>();
    while (!request.signal.aborted && !this.#closing.signal.aborted) {
      const version = this.#backend.version;
      const expiry = this.#nextExpiry(request.prefix);
      yield* changes(seen, this.#listHeld(request.prefix));
      request.onCaughtUp?.();
      const hasChanged = (): boolean =>
        this.#backend.version !== version || this.#clock.now() >= expiry;
      const nextCheck = (): number | undefined => (hasChanged() ? undefined : expiry);
      await this.#until(request.signal, nextCheck).catch(() => undefined);
    }
  }

  async revoke(request: RevokeRequest): Promise<RevokeOutcome> {
    this.#checkOpen();
    const entry = this.#backend.entries.get(request.resource);
    const held = entry && this.#findHeld(entry);
    if (!entry || held?.token !== request.token) return { kind: "notHeld" };
    held.session.revoked.set(toKey(request), { resource: request.resource, token: request.token });
    this.#free(entry);
    return { kind: "revoked" };
  }

  async close(): Promise<void> {
    this.#closing.abort(
      new StoreUnavailableError("The memory store is closed.", { applied: "no" }),
    );
  }

  #checkOpen(): void {
    if (this.#closing.signal.aborted) throw this.#closing.signal.reason;
  }

  /** Undefined if the session is unknown or has expired by the store's clock (S4). */
  #findSession(id: string): Session | undefined {
    const session = this.#backend.sessions.get(id);
    if (session === undefined || this.#clock.now() < session.expiresAt) return session;
    this.#backend.sessions.delete(id);
    return undefined;
  }

  #findEntry(resource: string): Entry {
    let entry = this.#backend.entries.get(resource);
    if (entry === undefined) {
      entry = {
        resource,
        token: undefined,
        lastAttempt: undefined,
        held: undefined,
        freeSince: 0,
        queue: [],
      };
      this.#backend.entries.set(resource, entry);
    }
    return entry;
  }

  #findHeld(entry: Entry): Entry["held"] {
    const held = entry.held;
    if (held === undefined || this.#findSession(held.session.id) === held.session) return held;
    // The session ended without a request for this resource, and its lease ended with it. A session
    // that was ended early became free no later than now.
    entry.freeSince = Math.min(held.session.expiresAt, this.#clock.now());
    entry.held = undefined;
    return undefined;
  }

  #free(entry: Entry): void {
    entry.held = undefined;
    entry.freeSince = this.#clock.now();
    this.#backend.changed();
  }

  /** Whether the attempt may take the free resource: the head of the queue goes first. */
  #mayTake(entry: Entry, attempt: string): boolean {
    entry.queue = entry.queue.filter(
      (waiter) => this.#findSession(waiter.session.id) === waiter.session,
    );
    const head = entry.queue[0];
    return (
      head === undefined ||
      head.attempt === attempt ||
      this.#clock.now() >= entry.freeSince + HEAD_START_MS
    );
  }

  #readHolder(resource: string): HolderView | undefined {
    const entry = this.#backend.entries.get(resource);
    const held = entry && this.#findHeld(entry);
    if (!entry || !held) return undefined;
    const { session, token, holderId, value } = held;
    const now = this.#clock.now();
    const [expiresInMs, heldForMs] = [session.expiresAt - now, now - held.grantedAt];
    return { holderId, sessionId: session.id, token, value, expiresInMs, heldForMs };
  }

  #listHeld(prefix: string): LeaseView[] {
    const names = [...this.#backend.entries.keys()]
      .filter((name) => name.startsWith(prefix))
      .sort();
    return names
      .map((resource) => ({ resource, holder: this.#readHolder(resource) }))
      .filter((view) => view.holder);
  }

  #nextExpiry(prefix: string): number {
    return this.#clock.now() + firstExpiryMs(this.#listHeld(prefix));
  }

  /**
   * Waits until `nextCheck` returns undefined. Calls it immediately, after every change, and at the
   * time that it returned.
   */
  #until(signal: AbortSignal, nextCheck: () => number | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      let timer: Timer | undefined;
      const { signal: ending, unlink } = linkSignals(signal, this.#closing.signal);
      const check = (): void => {
        timer?.cancel();
        const at = nextCheck();
        if (at === undefined) finish(resolve);
        else if (at < Number.POSITIVE_INFINITY)
          timer = this.#clock.setTimer(check, at - this.#clock.now(), { keepAlive: true });
      };
      const stop = (): void => finish(() => reject(ending.reason));
      const unlisten = this.#backend.onChange(check);
      const finish = (settle: () => void): void => {
        timer?.cancel();
        unlisten();
        unlink();
        settle();
      };
      ending.addEventListener("abort", stop, { once: true });
      if (ending.aborted) stop();
      else check();
    });
  }
}

function toKey({ resource, token }: LeaseRef): string {
  return `${token} ${resource}`;
}

function remember(granted: Set<string>, attempt: string): void {
  granted.add(attempt);
  const [oldest] = granted;
  if (granted.size > REMEMBERED_MAX && oldest !== undefined) granted.delete(oldest);
}

function joinQueue(entry: Entry, session: Session, attempt: string): void {
  if (!entry.queue.some((waiter) => waiter.attempt === attempt))
    entry.queue.push({ session, attempt });
}

function leaveQueue(entry: Entry, sessionId: string, attempt: string): void {
  entry.queue = entry.queue.filter(
    (waiter) => waiter.session.id !== sessionId || waiter.attempt !== attempt,
  );
}
