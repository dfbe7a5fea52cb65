// The store contract on a backend with conditional writes. This file connects the parts: leases.ts
// decides about resources, session.ts keeps the sessions of this process alive, observed.ts decides
// which sessions of others have expired, and wait.ts waits for resources.

import type { Clock } from "../../async/clock.ts";
import { StoreUnavailableError } from "../../core/errors.ts";
import { heldForMs } from "../../core/record.ts";
import type * as contract from "../contract.ts";
import type { OpenStore, Store, StoreParts } from "../contract.ts";
import { LEASE_PREFIX, type RecordBackend, SESSION_PREFIX } from "./backend.ts";
import { Cells } from "./cells.ts";
import { Leases } from "./leases.ts";
import { Observed } from "./observed.ts";
import { type LeaseRecord, readValue, type SessionRecord } from "./records.ts";
import { type OwnSession, Sessions } from "./session.ts";
import { Waits } from "./wait.ts";
import { listLeases, watchLeases } from "./watch.ts";

/** The time limit of requests for which no caller waits. */
const BACKGROUND_LIMIT_MS = 5_000;

export interface RecordStoreOptions {
  /**
   * The largest error of the backend's own clock, in milliseconds. With it, a session whose record
   * is older than its ttl plus this error, by the backend's clock, counts as expired when it is
   * first seen. Too small: a live session can be ended. Absent: a session expires only after this
   * process has observed it for a full ttl.
   */
  readonly clockErrorMs?: number | undefined;
}

/** Makes a store from a backend. The stores on such backends call this; it is not public. */
export function recordStore(
  connect: (parts: StoreParts) => Promise<RecordBackend>,
  { clockErrorMs }: RecordStoreOptions = {},
): OpenStore {
  return async (parts) => new RecordStore(await connect(parts), parts, clockErrorMs);
}

class RecordStore implements Store {
  readonly guarantees: contract.Guarantees;
  readonly #backend: RecordBackend;
  readonly #clock: Clock;
  readonly #closing = new AbortController();
  readonly #observed: Observed;
  readonly #leases: Leases;
  readonly #sessions: Sessions;
  readonly #waits: Waits;

  constructor(backend: RecordBackend, parts: StoreParts, clockErrorMs?: number) {
    const { store, tokenFalls, durable, minPollMs, maxPollMs } = backend.facts;
    const { clock } = parts;
    const closing = this.#closing.signal;
    this.guarantees = {
      store,
      tokenSource: "a counter in the record of the resource, never below the wall clock",
      tokenFalls,
      expiryClock: "the monotonic clock of the process that observes the session for a full ttl",
      ttlStepMs: 1,
      // An attempt that waits for a lease sees each beat of its session this much later at most.
      expiryLagMs: 2 * maxPollMs,
      wakeUp: backend.subscribe === undefined ? "poll" : "push",
      fifo: true,
      durable,
    };
    const cells = new Cells(backend, parts, closing);
    const observed = new Observed({ cells, clock, clockErrorMs, minPollMs });
    const sessions = new Sessions({
      backend,
      cells,
      clock,
      onNotice: (own, kind, ref) => this.#onNotice(own, kind, ref),
      onExpired: (own) => this.#background(() => this.#endSession(own, this.#endsAt())),
    });
    const leases = new Leases({ cells, observed, sessions, clock });
    const waits = new Waits({ backend, cells, leases, observed, sessions, clock, closing });
    cells.onContent = (key, content, record) => {
      if (key.startsWith(SESSION_PREFIX)) {
        const id = key.slice(SESSION_PREFIX.length);
        observed.note(id, content as SessionRecord, record);
        sessions.onContent(id, content as SessionRecord);
      } else waits.onContent(key.slice(LEASE_PREFIX.length), content as LeaseRecord);
    };
    this.#backend = backend;
    this.#clock = clock;
    this.#observed = observed;
    this.#sessions = sessions;
    this.#leases = leases;
    this.#waits = waits;
  }

  async openSession(request: contract.OpenSessionRequest): Promise<{ readonly ttlMs: number }> {
    const { ttlMs } = await this.#sessions.open(request, this.#endsAt(request.limitMs));
    return { ttlMs };
  }

  async grant(request: contract.GrantRequest): Promise<contract.GrantOutcome> {
    const endsAt = this.#endsAt(request.limitMs);
    const own = this.#sessions.findAlive(request.sessionId);
    if (own === undefined) return { kind: "gone" };
    const { resource, attempt } = request;
    const outcome = await this.#leases.grant(request, own.ttlMs, endsAt);
    if (outcome.kind === "queued") this.#waits.add(own, resource, attempt);
    else this.#waits.remove(own, resource, attempt);
    if (outcome.kind === "granted") {
      own.held.set(resource, outcome.token);
      // The answer reports the grant, so renewals need not.
      own.unaccepted.delete(resource);
    }
    return outcome;
  }

  async renew(request: contract.RenewRequest): Promise<contract.RenewOutcome> {
    const { withdrawn, acknowledged, accepted = [] } = request;
    const endsAt = this.#endsAt(request.limitMs);
    const own = this.#sessions.findAlive(request.sessionId);
    if (own === undefined) return { kind: "gone" };
    const renewed = await this.#sessions.renew(own, acknowledged, endsAt);
    if (renewed === undefined) {
      this.#stopWaiting(own);
      this.#sessions.forget(own);
      return { kind: "gone" };
    }
    for (const { resource, token } of accepted)
      if (own.unaccepted.get(resource)?.token === token) own.unaccepted.delete(resource);
    // The answer must not come late because of the rest, so that gets half of the time.
    const restEndsAt = (this.#clock.now() + endsAt) / 2;
    const wanted = await this.#catchUp(own, renewed, withdrawn, restEndsAt);
    const { ttlMs, waiting, unaccepted } = own;
    const { revoked: gone } = renewed;
    const granted = [...unaccepted.values()];
    return { kind: "renewed", ttlMs, gone, granted, wanted, waiting: waiting.size };
  }

  /**
   * Does for a session that was renewed what needs more than its own record, and returns which of
   * its leases are wanted. What fails here is repeated by the next renewal.
   */
  async #catchUp(
    own: OwnSession,
    renewed: SessionRecord,
    withdrawn: contract.RenewRequest["withdrawn"],
    endsAt: number,
  ): Promise<contract.LeaseRef[]> {
    const held = renewed.wanted.filter((ref) => own.held.get(ref.resource) === ref.token);
    const wanted = new Set(held);
    await Promise.all([
      ...withdrawn.map(({ resource, attempt }) =>
        this.#withdraw(own, resource, attempt, endsAt).catch(() => undefined),
      ),
      ...[...new Set(own.waiting.values())].map((resource) =>
        this.#waits.check(resource, endsAt, own.id).catch(() => undefined),
      ),
      ...held.map(async (ref) => {
        const { resource } = ref;
        const isWanted = await this.#leases.prepareHandOff(resource, endsAt).catch(() => true);
        if (!isWanted) wanted.delete(ref);
      }),
    ]);
    return [...wanted];
  }

  async release(request: contract.ReleaseRequest): Promise<contract.ReleaseOutcome> {
    const { resource, token, preferred } = request;
    const endsAt = this.#endsAt(request.limitMs);
    const own = this.#sessions.findAlive(request.sessionId);
    if (own === undefined) return { kind: "notHeld" };
    const isReleased = await this.#leases.release(
      own.id,
      { resource, token },
      { endsAt, preferred },
    );
    own.drop({ resource, token });
    return { kind: isReleased ? "released" : "notHeld" };
  }

  async withdraw(request: contract.AttemptRequest): Promise<void> {
    const endsAt = this.#endsAt(request.limitMs);
    const own = this.#sessions.findAlive(request.sessionId);
    if (own !== undefined) await this.#withdraw(own, request.resource, request.attempt, endsAt);
  }

  async endSession(request: contract.SessionRequest): Promise<void> {
    const endsAt = this.#endsAt(request.limitMs);
    const own = this.#sessions.get(request.sessionId);
    if (own !== undefined) await this.#endSession(own, endsAt);
  }

  async read(request: contract.ReadRequest): Promise<contract.ReadAnswer> {
    const { resource, consistency } = request;
    const endsAt = this.#endsAt(request.limitMs);
    const record = await this.#leases.read(resource, endsAt);
    const holder = await this.#findView(record, endsAt, 0);
    return { resource, holder, evidence: { consistency, ageMs: 0 } };
  }

  async list(request: contract.ListRequest): Promise<contract.ListPage> {
    const endsAt = this.#endsAt(request.limitMs);
    const maxAgeMs = this.#backend.facts.maxPollMs / 2;
    const findView = (record: LeaseRecord) => this.#findView(record, endsAt, maxAgeMs);
    return listLeases(request, { backend: this.#backend, clock: this.#clock, endsAt, findView });
  }

  watch(request: contract.WatchRequest): AsyncIterable<contract.LeaseView> {
    const list = (page: contract.ListRequest) => this.list(page);
    const closing = this.#closing.signal;
    return watchLeases(request, { backend: this.#backend, clock: this.#clock, closing, list });
  }

  async revoke(request: contract.RevokeRequest): Promise<contract.RevokeOutcome> {
    const { resource, token } = request;
    const endsAt = this.#endsAt(request.limitMs);
    const record = await this.#leases.read(resource, endsAt);
    const held = await this.#leases.findHolder(record, endsAt, 0);
    if (held === undefined || record.token !== token) return { kind: "notHeld" };
    const ref = { resource, token };
    // The notice comes first: from then on the next renewal of the holder reports the loss. If the
    // next step fails, the holder frees the resource itself.
    await this.#sessions.leaveNotice(held.session, "revoked", ref, endsAt);
    await this.#leases.release(held.session, ref, { endsAt }).catch((cause: unknown) => {
      const message = "The revocation was announced, but the resource may not be free yet.";
      throw new StoreUnavailableError(message, { applied: "unknown", resource, cause });
    });
    return { kind: "revoked" };
  }

  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    const message = `The ${this.guarantees.store} store is closed.`;
    this.#closing.abort(new StoreUnavailableError(message, { applied: "no" }));
    this.#sessions.close();
    await this.#backend.close();
  }

  /** When a request must be answered. Throws if the store is closed. */
  #endsAt(limitMs: number = BACKGROUND_LIMIT_MS): number {
    this.#closing.signal.throwIfAborted();
    return this.#clock.now() + limitMs;
  }

  async #withdraw(
    own: OwnSession,
    resource: string,
    attempt: string,
    endsAt: number,
  ): Promise<void> {
    this.#waits.remove(own, resource, attempt);
    const grant = own.unaccepted.get(resource);
    await this.#leases.withdraw(resource, { session: own.id, attempt }, endsAt);
    if (grant?.attempt === attempt) own.drop(grant);
  }

  /** Ends the session, frees its leases and leaves its queues. May be called again. */
  async #endSession(own: OwnSession, endsAt: number): Promise<void> {
    const waiting = [...own.waiting];
    this.#stopWaiting(own);
    await Promise.all([
      this.#sessions.end(own, endsAt),
      ...[...own.held].map(async ([resource, token]) => {
        await this.#leases.release(own.id, { resource, token }, { endsAt });
        own.held.delete(resource);
      }),
      ...waiting.map(([attempt, resource]) =>
        this.#leases.withdraw(resource, { session: own.id, attempt }, endsAt),
      ),
    ]);
    this.#sessions.forget(own);
    // No lease names this session any more, so its marker is not needed.
    const leftMs = endsAt - this.#clock.now();
    await this.#backend.remove?.(SESSION_PREFIX + own.id, leftMs).catch(() => undefined);
  }

  #stopWaiting(own: OwnSession): void {
    for (const [attempt, resource] of [...own.waiting]) this.#waits.remove(own, resource, attempt);
  }

  /** Another process has left a notice for a session of this process. */
  #onNotice(own: OwnSession, kind: "revoked" | "wanted", ref: contract.LeaseRef): void {
    if (kind === "wanted") {
      queueMicrotask(() => own.events?.wanted(ref));
      this.#background(() => this.#leases.prepareHandOff(ref.resource, this.#endsAt()));
      return;
    }
    own.drop(ref);
    queueMicrotask(() => own.events?.lost(ref));
    // The process that revoked the lease may have crashed before it freed the resource.
    this.#background(() => this.#leases.release(own.id, ref, { endsAt: this.#endsAt() }));
  }

  /** Does work that no caller waits for. It is best effort. */
  #background(work: () => Promise<unknown>): void {
    void Promise.resolve()
      .then(work)
      .catch(() => undefined);
  }

  /** What a reader sees of the holder. Undefined if the resource is free. */
  async #findView(
    record: LeaseRecord,
    endsAt: number,
    maxAgeMs: number,
  ): Promise<contract.HolderView | undefined> {
    const held = await this.#leases.findHolder(record, endsAt, maxAgeMs);
    if (held === undefined || record.token === undefined) return undefined;
    const { holderId, session: sessionId, value } = held;
    return {
      holderId,
      sessionId,
      token: record.token,
      value: readValue(value),
      expiresInMs: this.#observed.expiresInMs(held),
      heldForMs: heldForMs(held, this.#clock.wallNow()),
    };
  }
}
