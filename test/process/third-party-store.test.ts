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
  HEAD_START_MS,
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
  type SessionRequest,
  type Store,
  type StoreParts,
  type WatchRequest,
} from "tenure/store";
import { ManualClock, manualRandom, type Runner, storeSuite } from "tenure/testing";
import { describe, expect, test } from "vitest";

interface Session {
  readonly ttlMs: number;
  expiresAt: number;
  readonly revoked: LeaseRef[];
}

interface Row {
  token: bigint | undefined;
  attempt: string;
  held: { sessionId: string; holderId: string; value: unknown; since: number } | undefined;
  freeSince: number;
  queue: { readonly sessionId: string; readonly attempt: string }[];
}

/** The state that a server would keep. */
class Tables {
  readonly sessions = new Map<string, Session>();
  readonly rows = new Map<string, Row>();
}

const POLL_MS = 5;

/**
 * Implements the contract in the simplest way: it polls, and remembers only the newest attempt of
 * each resource.
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

  async openSession({ sessionId, ttlMs }: OpenSessionRequest): Promise<{ ttlMs: number }> {
    this.#checkOpen();
    const expiresAt = this.#clock.now() + ttlMs;
    this.#tables.sessions.set(sessionId, { ttlMs, expiresAt, revoked: [] });
    return { ttlMs };
  }

  async grant(request: GrantRequest): Promise<GrantOutcome> {
    this.#checkOpen();
    const { sessionId, resource, attempt, holderId, value } = request;
    if (!this.#isAlive(sessionId)) return { kind: "gone" };
    const row = this.#row(resource);
    if (row.attempt === attempt) {
      const isHeld = row.held?.sessionId === sessionId && row.token !== undefined;
      return isHeld ? { kind: "granted", token: row.token ?? 0n } : { kind: "ended" };
    }
    if (!this.#mayTake(row, attempt)) {
      const isQueued = row.queue.some((waiter) => waiter.attempt === attempt);
      if (request.queue && !isQueued) row.queue.push({ sessionId, attempt });
      return { kind: "busy", holderId: row.held?.holderId };
    }
    const clock = clockToken(this.#clock.wallNow());
    const token = nextToken({ last: row.token, floor: 1n, clock });
    row.token = token;
    row.attempt = attempt;
    row.held = { sessionId, holderId, value, since: this.#clock.now() };
    row.queue = row.queue.filter((waiter) => waiter.attempt !== attempt);
    return { kind: "granted", token };
  }

  async renew(request: RenewRequest): Promise<RenewOutcome> {
    this.#checkOpen();
    const { sessionId, withdrawn, acknowledged } = request;
    const session = this.#tables.sessions.get(sessionId);
    if (session === undefined || !this.#isAlive(sessionId)) return { kind: "gone" };
    for (const lost of withdrawn) await this.withdraw({ ...request, ...lost });
    for (const { resource, token } of acknowledged) {
      const at = session.revoked.findIndex(
        (ref) => ref.resource === resource && ref.token === token,
      );
      if (at >= 0) session.revoked.splice(at, 1);
    }
    session.expiresAt = this.#clock.now() + session.ttlMs;
    return { kind: "renewed", ttlMs: session.ttlMs, gone: [...session.revoked] };
  }

  async release({ sessionId, resource, token }: ReleaseRequest): Promise<ReleaseOutcome> {
    this.#checkOpen();
    const row = this.#row(resource);
    if (row.held?.sessionId !== sessionId || row.token !== token) return { kind: "notHeld" };
    this.#free(row);
    return { kind: "released" };
  }

  async withdraw({ sessionId, resource, attempt }: AttemptRequest): Promise<void> {
    this.#checkOpen();
    const row = this.#row(resource);
    row.queue = row.queue.filter((waiter) => waiter.attempt !== attempt);
    if (row.held?.sessionId === sessionId && row.attempt === attempt) this.#free(row);
  }

  async endSession({ sessionId }: SessionRequest): Promise<void> {
    this.#checkOpen();
    const session = this.#tables.sessions.get(sessionId);
    if (session !== undefined) session.expiresAt = Math.min(session.expiresAt, this.#clock.now());
  }

  async untilFree(request: AttemptRequest & { readonly signal: AbortSignal }): Promise<void> {
    for (;;) {
      request.signal.throwIfAborted();
      this.#checkOpen();
      if (this.#mayTake(this.#row(request.resource), request.attempt)) return;
      await this.#pause(request.signal);
    }
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
    this.#tables.sessions.get(row.held.sessionId)?.revoked.push({ resource, token });
    this.#free(row);
    return { kind: "revoked" };
  }

  async close(): Promise<void> {
    this.#closing.abort(new StoreUnavailableError("The store is closed.", { applied: "no" }));
  }

  #checkOpen(): void {
    this.#closing.signal.throwIfAborted();
  }

  #isAlive(sessionId: string): boolean {
    return (this.#tables.sessions.get(sessionId)?.expiresAt ?? 0) > this.#clock.now();
  }

  /**
   * Returns the row of a resource, after removing a lease and waiters whose sessions have ended.
   */
  #row(resource: string): Row {
    let row = this.#tables.rows.get(resource);
    if (row === undefined) {
      row = { token: undefined, attempt: "", held: undefined, freeSince: 0, queue: [] };
      this.#tables.rows.set(resource, row);
    }
    if (row.held !== undefined && !this.#isAlive(row.held.sessionId)) {
      row.freeSince = this.#tables.sessions.get(row.held.sessionId)?.expiresAt ?? 0;
      row.held = undefined;
    }
    row.queue = row.queue.filter((waiter) => this.#isAlive(waiter.sessionId));
    return row;
  }

  #mayTake(row: Row, attempt: string): boolean {
    const [first] = row.queue;
    const isTurn = first === undefined || first.attempt === attempt;
    return row.held === undefined && (isTurn || this.#clock.now() >= row.freeSince + HEAD_START_MS);
  }

  #free(row: Row): void {
    row.held = undefined;
    row.freeSince = this.#clock.now();
  }

  #view(resource: string): HolderView | undefined {
    const { held, token } = this.#row(resource);
    const session = held && this.#tables.sessions.get(held.sessionId);
    if (held === undefined || session === undefined || token === undefined) return undefined;
    const { since, ...holder } = held;
    const now = this.#clock.now();
    return { ...holder, token, expiresInMs: session.expiresAt - now, heldForMs: now - since };
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
  handsOff: false,
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
