// The store contract on a backend with conditional writes. This file connects the parts: leases.ts
// decides about resources, session.ts keeps the sessions of this process alive, observed.ts decides
// which sessions of others have expired, and wait.ts waits for resources.

import { StoreUnavailableError } from "../../core/errors.ts";
import { heldForMs } from "../../core/record.ts";
import type * as contract from "../contract.ts";
import type { Store, StoreParts } from "../contract.ts";
import { LEASE_PREFIX, type RecordBackend, SESSION_PREFIX } from "./backend.ts";
import { Cells } from "./cells.ts";
import { Leases } from "./leases.ts";
import { Observed } from "./observed.ts";
import { type Held, type LeaseRecord, readValue, type SessionRecord } from "./records.ts";
import { type OwnSession, Sessions } from "./session.ts";
import { Waits } from "./wait.ts";
import { listLeases, watchLeases } from "./watch.ts";

/** The time limit of requests for which no caller waits. */
const BACKGROUND_LIMIT_MS = 5_000;

export class RecordStore implements Store {
  readonly guarantees: contract.Guarantees;
  readonly #backend: RecordBackend;
  readonly #parts: StoreParts;
  readonly #closing = new AbortController();
  readonly #cells: Cells;
  readonly #observed: Observed;
  readonly #leases: Leases;
  readonly #sessions: Sessions;
  readonly #waits: Waits;

  constructor(backend: RecordBackend, parts: StoreParts, clockErrorMs: number | undefined) {
    const { store, tokenFalls, durable, minPollMs, maxPollMs } = backend.facts;
    const { clock } = parts;
    const closing = this.#closing.signal;
    this.#backend = backend;
    this.#parts = parts;
    this.guarantees = {
      store,
      tokenSource:
        "a counter in the record of the resource, at least the wall clock of the granting process",
      tokenFalls,
      expiryClock: "the monotonic clock of the process that observes the session for a full ttl",
      ttlStepMs: 1,
      // A beat is seen this much later at most, if an attempt waits for one of the leases.
      expiryLagMs: 2 * maxPollMs,
      wakeUp: backend.subscribe === undefined ? "poll" : "push",
      fifo: true,
      durable,
    };
    const cells = new Cells(backend, parts, closing);
    const observed = new Observed({ cells, clock, clockErrorMs, minPollMs });
    const sessions = new Sessions({
      ...{ backend, cells, store: parts },
      onNotice: (own, kind, ref) => this.#onNotice(own, kind, ref),
      onExpired: (own) => this.#background(() => this.#endSession(own, this.#endsAt())),
    });
    const isOwnActive = (session: string): boolean | undefined => sessions.isActive(session);
    const leases = new Leases({ cells, observed, clock, isOwnActive });
    this.#cells = cells;
    this.#observed = observed;
    this.#sessions = sessions;
    this.#leases = leases;
    this.#waits = new Waits({ backend, cells, leases, observed, sessions, clock, closing });
    cells.onContent = (key, content, record) => {
      if (key.startsWith(SESSION_PREFIX)) {
        const id = key.slice(SESSION_PREFIX.length);
        observed.note(id, content as SessionRecord | undefined, record);
        sessions.onContent(id, content as SessionRecord | undefined);
      } else if (content !== undefined)
        this.#waits.onContent(key.slice(LEASE_PREFIX.length), content as LeaseRecord);
    };
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
    const renewed = own && (await this.#sessions.renew(own, acknowledged, endsAt));
    if (own === undefined || renewed === undefined) {
      if (own !== undefined) this.#stopWaiting(own);
      return { kind: "gone" };
    }
    for (const { resource, token } of accepted)
      if (own.unaccepted.get(resource)?.token === token) own.unaccepted.delete(resource);
    const wanted: contract.LeaseRef[] = [];
    // The session is renewed. What fails here is repeated by the next renewal.
    await Promise.all([
      ...withdrawn.map(({ resource, attempt }) =>
        this.#withdraw(own, resource, attempt, endsAt).catch(() => undefined),
      ),
      ...[...new Set(own.waiting.values())].map((resource) =>
        this.#waits.check(resource, endsAt, own.id).catch(() => undefined),
      ),
      ...renewed.wanted.map(async (ref) => {
        if (own.held.get(ref.resource) !== ref.token) return;
        const isWanted = await this.#leases.prepareHandOff(ref.resource, endsAt).catch(() => true);
        if (isWanted) wanted.push(ref);
      }),
    ]);
    const { ttlMs, waiting, unaccepted } = own;
    const granted = [...unaccepted.values()];
    return {
      kind: "renewed",
      ttlMs,
      gone: renewed.revoked,
      granted,
      wanted,
      waiting: waiting.size,
    };
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
    this.#dropLease(own, { resource, token });
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
    const held = await this.#leases.findHolder(record, endsAt, 0);
    const holder = record && held && this.#toView(record, held);
    return { resource, holder, evidence: { consistency, ageMs: 0 } };
  }

  async list(request: contract.ListRequest): Promise<contract.ListPage> {
    const endsAt = this.#endsAt(request.limitMs);
    return listLeases(request, {
      ...{ backend: this.#backend, cells: this.#cells, clock: this.#parts.clock, endsAt },
      findHolder: (record) =>
        this.#leases.findHolder(record, endsAt, this.#backend.facts.maxPollMs / 2),
      toView: (record, held) => this.#toView(record, held),
    });
  }

  watch(request: contract.WatchRequest): AsyncIterable<contract.LeaseView> {
    return watchLeases(request, {
      ...{ backend: this.#backend, clock: this.#parts.clock, closing: this.#closing.signal },
      list: (page) => this.list(page),
    });
  }

  async revoke(request: contract.RevokeRequest): Promise<contract.RevokeOutcome> {
    const { resource, token } = request;
    const endsAt = this.#endsAt(request.limitMs);
    const record = await this.#leases.read(resource, endsAt);
    const held =
      record?.token === token ? await this.#leases.findHolder(record, endsAt, 0) : undefined;
    if (held === undefined) return { kind: "notHeld" };
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
    return this.#parts.clock.now() + limitMs;
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
    if (grant?.attempt === attempt) this.#dropLease(own, grant);
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
    const leftMs = endsAt - this.#parts.clock.now();
    await this.#backend.remove?.(SESSION_PREFIX + own.id, leftMs).catch(() => undefined);
  }

  #stopWaiting(own: OwnSession): void {
    for (const [attempt, resource] of [...own.waiting]) this.#waits.remove(own, resource, attempt);
  }

  #dropLease(own: OwnSession, { resource, token }: contract.LeaseRef): void {
    if (own.held.get(resource) === token) own.held.delete(resource);
    if (own.unaccepted.get(resource)?.token === token) own.unaccepted.delete(resource);
  }

  /** Another process has left a notice for a session of this process. */
  #onNotice(own: OwnSession, kind: "revoked" | "wanted", ref: contract.LeaseRef): void {
    if (kind === "wanted") {
      queueMicrotask(() => own.events?.wanted(ref));
      this.#background(() => this.#leases.prepareHandOff(ref.resource, this.#endsAt()));
      return;
    }
    this.#dropLease(own, ref);
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

  #toView({ token = 0n }: LeaseRecord, held: Held): contract.HolderView {
    const { holderId, session: sessionId, value } = held;
    const expiresInMs = this.#observed.expiresInMs(held);
    const heldMs = heldForMs(held, this.#parts.clock.wallNow());
    return { holderId, sessionId, token, value: readValue(value), expiresInMs, heldForMs: heldMs };
  }
}
