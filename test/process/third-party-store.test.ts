// Goal: the public subpaths are enough to write a store in TypeScript. Method: a small store,
// written as a third party would, passes the conformance suite and serves connect(). Every import
// of Tenure names a public subpath, so the type check of this file checks their declarations.
import { connect, StoreUnavailableError } from "tenure";
import {
  type AttemptRequest,
  type Clock,
  clockToken,
  type GrantOutcome,
  type GrantRequest,
  type Guarantees,
  type HolderView,
  type LeaseRef,
  type LeaseView,
  type ListPage,
  type ListRequest,
  nextToken,
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
  type SessionEvents,
  type SessionRequest,
  type Store,
  type StoreParts,
  type WatchRequest,
} from "tenure/store";
import { ManualClock, manualRandom, type Runner, storeSuite } from "tenure/testing";
import { describe, expect, test } from "vitest";

interface Session {
  readonly ttlMs: number;
  readonly quietAfterMs: number;
  readonly events: SessionEvents | undefined;
  renewedAt: number;
  readonly revoked: LeaseRef[];
}

interface Waiter {
  readonly sessionId: string;
  readonly attempt: string;
  readonly holderId: string;
  readonly value: unknown;
  readonly rank: number;
}

interface Row {
  readonly resource: string;
  token: bigint | undefined;
  /** The attempt of the newest grant. */
  attempt: string;
  held: (Waiter & { readonly since: number; isAccepted: boolean }) | undefined;
  /** In order. */
  queue: Waiter[];
}

/** The state that a server would keep. */
class Tables {
  readonly sessions = new Map<string, Session>();
  readonly rows = new Map<string, Row>();
}

const POLL_MS = 5;

/**
 * Implements the contract in the simplest way: it polls for expired holders, and remembers only the
 * newest attempt of each resource.
 */
class MapStore implements Store {
  readonly guarantees: Guarantees = {
    store: "map",
    tokenSource: "a counter per resource",
    tokenFalls: "when the process ends and the wall clock was set back",
    expiryClock: "the process's monotonic clock",
    ttlStepMs: 1,
    expiryLagMs: 0,
    wakeUp: "poll",
    fifo: true,
    durable: false,
  };
  readonly #tables: Tables;
  readonly #clock: Clock;
  readonly #closing = new AbortController();

  constructor(tables: Tables, { clock }: StoreParts) {
    this.#tables = tables;
    this.#clock = clock;
  }

  async openSession(request: OpenSessionRequest): Promise<{ ttlMs: number }> {
    this.#checkOpen();
    const { sessionId, ttlMs, quietAfterMs = ttlMs, events } = request;
    const renewedAt = this.#clock.now();
    const session = { ttlMs, quietAfterMs, events, renewedAt, revoked: [] };
    this.#tables.sessions.set(sessionId, session);
    return { ttlMs };
  }

  async grant(request: GrantRequest): Promise<GrantOutcome> {
    this.#checkOpen();
    const { sessionId, resource, attempt, holderId, value, rank = 0, queue } = request;
    if (!this.#isAlive(sessionId)) return { kind: "gone" };
    const row = this.#row(resource);
    if (row.attempt === attempt && row.held?.sessionId !== sessionId) return { kind: "ended" };
    if (row.attempt !== attempt && !row.queue.some((waiter) => waiter.attempt === attempt)) {
      row.queue.push({ sessionId, attempt, holderId, value, rank });
      row.queue.sort((one, other) => one.rank - other.rank);
    }
    this.#handOff(row, { requester: sessionId });
    const { held, token = 0n } = row;
    if (held?.attempt === attempt) {
      held.isAccepted = true;
      return { kind: "granted", token };
    }
    if (!queue) {
      row.queue = row.queue.filter((waiter) => waiter.attempt !== attempt);
      return { kind: "busy", holderId: held?.holderId };
    }
    if (held !== undefined)
      this.#report(held.sessionId, (events) => events.wanted({ resource, token }));
    this.#poll(row, attempt);
    return { kind: "queued", holderId: held?.holderId };
  }

  async renew(request: RenewRequest): Promise<RenewOutcome> {
    this.#checkOpen();
    const { sessionId, withdrawn, acknowledged, accepted = [] } = request;
    const session = this.#tables.sessions.get(sessionId);
    if (session === undefined || !this.#isAlive(sessionId)) return { kind: "gone" };
    session.renewedAt = this.#clock.now();
    for (const lost of withdrawn) await this.withdraw({ ...request, ...lost });
    for (const ref of acknowledged) {
      const at = session.revoked.findIndex((revoked) => isSame(revoked, ref));
      if (at >= 0) session.revoked.splice(at, 1);
    }
    const rows = [...this.#tables.rows.keys()].map((resource) => this.#row(resource));
    const isOwn = (waiter: Waiter): boolean => waiter.sessionId === sessionId;
    for (const row of rows) if (row.queue.some(isOwn)) this.#handOff(row, { requester: sessionId });
    const own = rows.flatMap(({ resource, token, held, queue }) =>
      token !== undefined && held !== undefined && isOwn(held)
        ? [{ ref: { resource, token }, held, isWanted: queue.length > 0 }]
        : [],
    );
    for (const { ref, held } of own)
      held.isAccepted ||= accepted.some((lease) => isSame(lease, ref));
    return {
      kind: "renewed",
      ttlMs: session.ttlMs,
      gone: [...session.revoked],
      granted: own
        .filter(({ held }) => !held.isAccepted)
        .map(({ ref, held }) => ({ ...ref, attempt: held.attempt })),
      wanted: own.filter(({ isWanted }) => isWanted).map(({ ref }) => ref),
      waiting: rows.flatMap(({ queue }) => queue.filter(isOwn)).length,
    };
  }

  async release(request: ReleaseRequest): Promise<ReleaseOutcome> {
    this.#checkOpen();
    const { sessionId, resource, token, preferred } = request;
    const row = this.#row(resource);
    if (row.held?.sessionId !== sessionId || row.token !== token) return { kind: "notHeld" };
    row.held = undefined;
    this.#handOff(row, { preferred });
    return { kind: "released" };
  }

  async withdraw({ sessionId, resource, attempt }: AttemptRequest): Promise<void> {
    this.#checkOpen();
    const row = this.#row(resource);
    row.queue = row.queue.filter((waiter) => waiter.attempt !== attempt);
    if (row.held?.sessionId !== sessionId || row.attempt !== attempt) return;
    row.held = undefined;
    this.#handOff(row);
  }

  async endSession({ sessionId }: SessionRequest): Promise<void> {
    this.#checkOpen();
    this.#tables.sessions.delete(sessionId);
    for (const resource of this.#tables.rows.keys()) this.#handOff(this.#row(resource));
  }

  async read({ resource, consistency }: ReadRequest): Promise<ReadAnswer> {
    this.#checkOpen();
    return { resource, holder: this.#view(resource), evidence: { consistency, ageMs: 0 } };
  }

  async list({ prefix, after, limit }: ListRequest): Promise<ListPage> {
    this.#checkOpen();
    const held = this.#held(prefix).filter(
      ({ resource }) => after === undefined || resource > after,
    );
    const leases = held.slice(0, limit);
    return { leases, next: held.length > limit ? leases.at(-1)?.resource : undefined };
  }

  async *watch({ prefix, signal, onCaughtUp }: WatchRequest): AsyncIterable<LeaseView> {
    const seen = new Map<string, bigint>();
    while (!signal.aborted && !this.#closing.signal.aborted) {
      const held = this.#held(prefix);
      for (const resource of [...seen.keys()]) {
        if (held.some((view) => view.resource === resource)) continue;
        seen.delete(resource);
        yield { resource };
      }
      for (const view of held) {
        if (view.holder === undefined || seen.get(view.resource) === view.holder.token) continue;
        seen.set(view.resource, view.holder.token);
        yield view;
      }
      onCaughtUp?.();
      await this.#pause(signal).catch(() => undefined);
    }
  }

  async revoke({ resource, token }: RevokeRequest): Promise<RevokeOutcome> {
    this.#checkOpen();
    const row = this.#row(resource);
    if (row.held === undefined || row.token !== token) return { kind: "notHeld" };
    const { sessionId } = row.held;
    this.#tables.sessions.get(sessionId)?.revoked.push({ resource, token });
    this.#report(sessionId, (events) => events.lost({ resource, token }));
    row.held = undefined;
    this.#handOff(row);
    return { kind: "revoked" };
  }

  async close(): Promise<void> {
    this.#closing.abort(new StoreUnavailableError("The store is closed.", { applied: "no" }));
  }

  #checkOpen(): void {
    this.#closing.signal.throwIfAborted();
  }

  /** `withinMs`: the session was renewed within this time. By default, within its ttl. */
  #isAlive(sessionId: string, withinMs?: (session: Session) => number): boolean {
    const session = this.#tables.sessions.get(sessionId);
    if (session === undefined) return false;
    return this.#clock.now() < session.renewedAt + (withinMs?.(session) ?? session.ttlMs);
  }

  /**
   * Returns the row of a resource, after removing a lease and waiters whose sessions have ended.
   */
  #row(resource: string): Row {
    let row = this.#tables.rows.get(resource);
    if (row === undefined) {
      row = { resource, token: undefined, attempt: "", held: undefined, queue: [] };
      this.#tables.rows.set(resource, row);
    }
    if (row.held !== undefined && !this.#isAlive(row.held.sessionId)) row.held = undefined;
    row.queue = row.queue.filter((waiter) => this.#isAlive(waiter.sessionId));
    return row;
  }

  /** Grants a free resource to the next waiter whose session is not quiet. */
  #handOff(row: Row, by: { requester?: string; preferred?: string | undefined } = {}): void {
    if (row.held !== undefined) return;
    const mayBeGranted = ({ sessionId }: Waiter): boolean =>
      sessionId === by.requester || this.#isAlive(sessionId, ({ quietAfterMs }) => quietAfterMs);
    const candidates = row.queue.filter(mayBeGranted);
    const next = candidates.find(({ holderId }) => holderId === by.preferred) ?? candidates[0];
    if (next === undefined) return;
    const clock = clockToken(this.#clock.wallNow());
    const token = nextToken({ last: row.token, floor: 1n, clock });
    row.token = token;
    row.attempt = next.attempt;
    row.held = { ...next, since: this.#clock.now(), isAccepted: false };
    row.queue = row.queue.filter((waiter) => waiter !== next);
    const { resource } = row;
    const grant = { resource, token, attempt: next.attempt };
    this.#report(next.sessionId, (events) => events.granted(grant));
  }

  #report(sessionId: string, send: (events: SessionEvents) => void): void {
    const events = this.#tables.sessions.get(sessionId)?.events;
    if (events !== undefined) queueMicrotask(() => send(events));
  }

  /** While the attempt waits, checks whether the holder has expired. */
  #poll(row: Row, attempt: string): void {
    const check = (): void => {
      const { queue } = this.#row(row.resource);
      if (this.#closing.signal.aborted || !queue.some((waiter) => waiter.attempt === attempt))
        return;
      this.#handOff(row);
      this.#poll(row, attempt);
    };
    this.#clock.setTimer(check, POLL_MS);
  }

  #view(resource: string): HolderView | undefined {
    const { held, token } = this.#row(resource);
    const session = held && this.#tables.sessions.get(held.sessionId);
    if (held === undefined || session === undefined || token === undefined) return undefined;
    const { sessionId, holderId, value, since } = held;
    const now = this.#clock.now();
    const expiresInMs = session.renewedAt + session.ttlMs - now;
    return { sessionId, holderId, value, token, expiresInMs, heldForMs: now - since };
  }

  #held(prefix: string): LeaseView[] {
    const names = [...this.#tables.rows.keys()].filter((name) => name.startsWith(prefix)).sort();
    return names
      .map((resource) => ({ resource, holder: this.#view(resource) }))
      .filter(({ holder }) => holder !== undefined);
  }

  #pause(ends: AbortSignal): Promise<void> {
    const signal = AbortSignal.any([ends, this.#closing.signal]);
    return new Promise((resolve, reject) => {
      const stop = (): void => {
        timer.cancel();
        reject(signal.reason);
      };
      const timer = this.#clock.setTimer(() => {
        signal.removeEventListener("abort", stop);
        resolve();
      }, POLL_MS);
      signal.addEventListener("abort", stop, { once: true });
    });
  }
}

function isSame(one: LeaseRef, other: LeaseRef): boolean {
  return one.resource === other.resource && one.token === other.token;
}

function mapStore(tables: Tables = new Tables()): OpenStore {
  return async (parts) => new MapStore(tables, parts);
}

const runner: Runner = {
  describe: (name, body) => void describe(name, body),
  test: (name, body) => void test(name, (context) => body((reason) => context.skip(reason))),
};

storeSuite(runner, {
  name: "a third-party store",
  ttlMs: 10_000,
  guarantees: { fifo: true, durable: false },
  create: async () => {
    const clock = new ManualClock();
    const open = mapStore();
    const random = manualRandom();
    const warn = (): void => undefined;
    return {
      open: () => open({ clock, hostClock: clock.hostClock, random, warn }),
      sleep: (ms) => clock.advance(ms),
      now: () => clock.now(),
      close: async () => undefined,
    };
  },
});

test("connect() accepts a third-party store", async () => {
  const tenure = await connect(mapStore());
  const token = await tenure.withLease("job", (lease) => lease.token);
  expect(token).toBeGreaterThan(0n);
  await tenure.close();
});
