// The executable specification of the store contract: what each request means, with nothing in between. Also the
// store for tests and for coordination inside one process. Every other store must behave like this file.

import type { Clock, Timer } from "../../async/clock.ts";
import { linkSignals } from "../../async/signals.ts";
import { clockToken, nextToken } from "../../core/era.ts";
import { StoreUnavailableError } from "../../core/errors.ts";
import { checkOptionNames, type OptionNames } from "../../core/options.ts";
import { checkToken } from "../../core/token.ts";
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

/** A copy that is overtaken by so many grants of its own session was lost. */
const REMEMBERED_MAX = 1_000;

interface Session {
  readonly id: string;
  readonly ttlMs: number;
  expiresAt: number;
  /** Leases of this session that were revoked: reported at every renewal until one acknowledges them. */
  readonly revoked: Map<string, LeaseRef>;
  /** Attempts that were granted, the newest last: none is granted again, however late a copy of its request comes. */
  readonly granted: Set<string>;
}

interface Entry {
  readonly resource: string;
  /** The newest token; undefined before the first grant. An entry is never deleted, so it never falls (S1). */
  token: bigint | undefined;
  /** The attempt of the newest grant, also after it ended: a repeated request must not be granted again. */
  lastAttempt: string | undefined;
  held:
    | {
        readonly session: Session;
        readonly token: bigint;
        readonly holderId: string;
        readonly value: unknown;
        readonly grantedAt: number;
      }
    | undefined;
  /** Since when nobody holds it, by the store's clock. */
  freeSince: number;
  queue: { readonly session: Session; readonly attempt: string }[];
}

export interface MemoryBackendOptions {
  /**
   * The first token of every resource. For tests whose output must be the same in every run; real tokens start at the wall
   * clock, so that they do not repeat when the process starts again. @default the wall clock in microseconds
   */
  readonly firstToken?: bigint | undefined;
}

const BACKEND_OPTIONS: OptionNames<MemoryBackendOptions> = { firstToken: true };

/** The state that several stores of one process can share, as several clients share one server. */
export class MemoryBackend {
  readonly #firstToken: bigint | undefined;
  readonly sessions: Map<string, Session> = new Map();
  readonly entries: Map<string, Entry> = new Map();
  /** Counts changes, so that a watcher knows whether it missed one while it was not listening. */
  version = 0;
  readonly #listeners = new Set<() => void>();

  constructor(options: MemoryBackendOptions = {}) {
    checkOptionNames("new MemoryBackend()", options, BACKEND_OPTIONS);
    this.#firstToken =
      options.firstToken === undefined ? undefined : checkToken(options.firstToken);
  }

  /** The token of the next grant of a resource whose newest token this is (S1). */
  nextToken(last: bigint | undefined, wallMs: number): bigint {
    return nextToken({ last, floor: 1n, clock: this.#firstToken ?? clockToken(wallMs) });
  }

  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  changed(): void {
    this.version += 1;
    for (const listener of [...this.#listeners]) listener();
  }
}

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
    this.#refuseWhenClosed();
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
    this.#refuseWhenClosed();
    const session = this.#session(request.sessionId);
    if (session === undefined) return { kind: "gone" };
    const entry = this.#entry(request.resource);
    const held = this.#holding(entry);
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
    this.#refuseWhenClosed();
    const session = this.#session(request.sessionId);
    if (session === undefined) return { kind: "gone" };
    for (const lost of request.withdrawn) await this.withdraw({ ...request, ...lost });
    for (const ref of request.acknowledged) session.revoked.delete(nameOf(ref));
    session.expiresAt = this.#clock.now() + session.ttlMs;
    return { kind: "renewed", ttlMs: session.ttlMs, gone: [...session.revoked.values()] };
  }

  async release(request: ReleaseRequest): Promise<ReleaseOutcome> {
    this.#refuseWhenClosed();
    const entry = this.#backend.entries.get(request.resource);
    const held = entry && this.#holding(entry);
    if (!entry || held?.session.id !== request.sessionId || held.token !== request.token) {
      return { kind: "notHeld" };
    }
    this.#free(entry);
    return { kind: "released" };
  }

  async withdraw(request: AttemptRequest): Promise<void> {
    this.#refuseWhenClosed();
    const entry = this.#backend.entries.get(request.resource);
    if (!entry) return;
    leaveQueue(entry, request.sessionId, request.attempt);
    const held = this.#holding(entry);
    if (held?.session.id === request.sessionId && entry.lastAttempt === request.attempt)
      this.#free(entry);
    else this.#backend.changed();
  }

  async endSession(request: SessionRequest): Promise<void> {
    this.#refuseWhenClosed();
    if (this.#backend.sessions.delete(request.sessionId)) this.#backend.changed();
  }

  untilFree(request: AttemptRequest & { readonly signal: AbortSignal }): Promise<void> {
    const entry = this.#entry(request.resource);
    return this.#until(request.signal, () => {
      const held = this.#holding(entry);
      if (held !== undefined) return held.session.expiresAt;
      return this.#mayTake(entry, request.attempt) ? undefined : entry.freeSince + HEAD_START_MS;
    });
  }

  async read(request: ReadRequest): Promise<ReadAnswer> {
    this.#refuseWhenClosed();
    const evidence = { consistency: request.consistency, ageMs: 0 };
    return { resource: request.resource, holder: this.#view(request.resource), evidence };
  }

  async list(request: ListRequest): Promise<ListPage> {
    this.#refuseWhenClosed();
    const { prefix, after } = request;
    const held = this.#heldWith(prefix).filter(
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
      yield* changes(seen, this.#heldWith(request.prefix));
      request.onCaughtUp?.();
      const news = (): boolean => this.#backend.version !== version || this.#clock.now() >= expiry;
      await this.#until(request.signal, () => (news() ? undefined : expiry)).catch(() => undefined);
    }
  }

  async revoke(request: RevokeRequest): Promise<RevokeOutcome> {
    this.#refuseWhenClosed();
    const entry = this.#backend.entries.get(request.resource);
    const held = entry && this.#holding(entry);
    if (!entry || held?.token !== request.token) return { kind: "notHeld" };
    held.session.revoked.set(nameOf(request), { resource: request.resource, token: request.token });
    this.#free(entry);
    return { kind: "revoked" };
  }

  async close(): Promise<void> {
    this.#closing.abort(
      new StoreUnavailableError("The memory store is closed.", { applied: "no" }),
    );
  }

  #refuseWhenClosed(): void {
    if (this.#closing.signal.aborted) throw this.#closing.signal.reason;
  }

  /** A session counts until its end by the store's clock; then it is as if it had never been (S4). */
  #session(id: string): Session | undefined {
    const session = this.#backend.sessions.get(id);
    if (session === undefined || this.#clock.now() < session.expiresAt) return session;
    this.#backend.sessions.delete(id);
    return undefined;
  }

  #entry(resource: string): Entry {
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

  #holding(entry: Entry): Entry["held"] {
    const held = entry.held;
    if (held === undefined || this.#session(held.session.id) === held.session) return held;
    // The session has ended: so has the lease, at that very moment.
    entry.freeSince = Math.min(held.session.expiresAt, this.#clock.now());
    entry.held = undefined;
    return undefined;
  }

  #free(entry: Entry): void {
    entry.held = undefined;
    entry.freeSince = this.#clock.now();
    this.#backend.changed();
  }

  #mayTake(entry: Entry, attempt: string): boolean {
    entry.queue = entry.queue.filter(
      (waiter) => this.#session(waiter.session.id) === waiter.session,
    );
    const head = entry.queue[0];
    return (
      head === undefined ||
      head.attempt === attempt ||
      this.#clock.now() >= entry.freeSince + HEAD_START_MS
    );
  }

  #view(resource: string): HolderView | undefined {
    const entry = this.#backend.entries.get(resource);
    const held = entry && this.#holding(entry);
    if (!entry || !held) return undefined;
    const { session, token, holderId, value } = held;
    const now = this.#clock.now();
    const [expiresInMs, heldForMs] = [session.expiresAt - now, now - held.grantedAt];
    return { holderId, sessionId: session.id, token, value, expiresInMs, heldForMs };
  }

  #heldWith(prefix: string): LeaseView[] {
    const names = [...this.#backend.entries.keys()]
      .filter((name) => name.startsWith(prefix))
      .sort();
    return names
      .map((resource) => ({ resource, holder: this.#view(resource) }))
      .filter((view) => view.holder);
  }

  #nextExpiry(prefix: string): number {
    return this.#clock.now() + firstExpiryMs(this.#heldWith(prefix));
  }

  /** Waits until `lookAgainAt` answers undefined; asks it at once, after every change, and at the instant it names. */
  #until(signal: AbortSignal, lookAgainAt: () => number | undefined): Promise<void> {
    return new Promise((resolve, reject) => {
      let timer: Timer | undefined;
      const { signal: ending, unlink } = linkSignals(signal, this.#closing.signal);
      const look = (): void => {
        timer?.cancel();
        const at = lookAgainAt();
        if (at === undefined) finish(resolve);
        else if (at < Number.POSITIVE_INFINITY)
          timer = this.#clock.setTimer(look, at - this.#clock.now(), { keepAlive: true });
      };
      const stop = (): void => finish(() => reject(ending.reason));
      const unlisten = this.#backend.onChange(look);
      const finish = (settle: () => void): void => {
        timer?.cancel();
        unlisten();
        unlink();
        settle();
      };
      ending.addEventListener("abort", stop, { once: true });
      if (ending.aborted) stop();
      else look();
    });
  }
}

function nameOf({ resource, token }: LeaseRef): string {
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
