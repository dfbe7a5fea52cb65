// The store's requests on an open file. Read it beside memory.ts, which says the same without a file.

import type { HostClock } from "../../async/clock.ts";
import { linkSignals } from "../../async/signals.ts";
import type { Disk } from "../../clients/sqlite/disk.ts";
import type { Connection } from "../../clients/sqlite/driver.ts";
import { failure, isBusy } from "../../clients/sqlite/failures.ts";
import { clockToken } from "../../core/era.ts";
import { StoreUnavailableError } from "../../core/errors.ts";
import { decodeRecord, encodeRecord, shownRecord } from "../../core/record.ts";
import type * as contract from "../contract.ts";
import type { Store, StoreParts } from "../contract.ts";
import { changes, firstExpiryMs } from "../shared/changes.ts";
import { type Asked, lookAgainInMs, type Moment, Tables } from "./tables.ts";
import { Waker } from "./waker.ts";
import { Writer } from "./writer.ts";

export interface OpenedFile {
  readonly connection: Connection;
  readonly file: string;
  readonly disk: Disk;
}

/** How often a read is tried again while another process recovers the file. */
const READ_TRIES = 200;

/** Whoever has no more than so many before it in line looks at every write, so that its turn is not missed. */
const ALERT = 1;
/** For each further one before it, a waiter may look so much later. Less, and a long line keeps the cores from whose turn it is. */
const TURN_MS = 5;

export class SqliteStore implements Store {
  readonly guarantees: contract.Guarantees;
  readonly #connection: Connection;
  readonly #file: string;
  readonly #parts: StoreParts;
  readonly #host: HostClock;
  readonly #tables: Tables;
  readonly #writer: Writer;
  readonly #waker: Waker;
  readonly #closing = new AbortController();
  #latest: Moment | undefined;
  #readAt = Number.NEGATIVE_INFINITY;

  constructor({ connection, file, disk }: OpenedFile, parts: StoreParts) {
    const { clock, random, hostClock } = parts;
    this.#connection = connection;
    this.#file = file;
    this.#parts = parts;
    this.#host = hostClock;
    this.#tables = new Tables(connection);
    this.#waker = new Waker({ connection, file, disk, clock });
    const onCommit = (): void => this.#waker.wakeAll();
    this.#writer = new Writer({ connection, file, disk, clock, random, onCommit });
    this.guarantees = {
      store: "sqlite",
      tokenSource:
        "a counter in the resource's row, raised by the granting transaction to the host's wall clock at least",
      tokenFalls:
        "when the file is deleted or replaced by an older copy and the host's wall clock was set back",
      expiryClock: "the host's boot clock, which runs on in suspend",
      ttlStepMs: 1,
      expiryLagMs: 2 * this.#host.stepMs,
      wakeUp: "push",
      fifo: true,
      durable: true,
    };
  }

  async openSession(request: contract.OpenSessionRequest): Promise<{ readonly ttlMs: number }> {
    const { sessionId: id, holderId } = request;
    const ttlMs = Math.ceil(request.ttlMs);
    return this.#writer.write(request.limitMs, () => {
      const at = this.#now();
      this.#tables.adoptForeignSessions(at, this.#host.stepMs);
      this.#tables.sweep(at);
      // One step more than the ttl: the clock may have read up to a step too low, and the store may be late, not early.
      const expiresMs = at.nowMs + ttlMs + this.#host.stepMs;
      this.#tables.addSession({ id, holderId, ttlMs, bootId: at.bootId, expiresMs });
      return { ttlMs };
    });
  }

  grant(request: contract.GrantRequest): Promise<contract.GrantOutcome> {
    return this.#writer.write(request.limitMs, () => {
      const at = this.#lately();
      const outcome = this.#grant(request, at);
      if (outcome.kind !== "busy") return outcome;
      // A yes holds. A no may be the fault of a reading that is a step old.
      const now = this.#now();
      return at.nowMs === now.nowMs ? outcome : this.#grant(request, now);
    });
  }

  #grant(request: contract.GrantRequest, at: Moment): contract.GrantOutcome {
    const { resource, attempt, sessionId: session, holderId, value } = request;
    const { lives, row, head } = this.#asked(request, at);
    if (!lives) return { kind: "gone" };
    if (row?.attempt === attempt) {
      const held = row.session === session;
      return held ? { kind: "granted", token: row.token } : { kind: "ended" };
    }
    if (lookAgainInMs(row, head, attempt, at) > 0) {
      if (request.queue) this.#tables.joinQueue({ resource, session, attempt });
      return {
        kind: "busy",
        holderId: row?.session == null ? undefined : shownRecord(row.record).holderId,
      };
    }
    // Taking from a session that is over begins with its death: its next renewal must fail (S4).
    if (row?.session != null) this.#tables.endSession(row.session, at.nowMs);
    const granted = { grantedAtMs: at.nowMs, bootId: at.bootId };
    const record = encodeRecord({ holderId, sessionId: session, attempt, value, ...granted });
    const clock = clockToken(this.#parts.clock.wallNow());
    const token = this.#tables.grant({ resource, session, attempt, record, clock });
    if (head !== undefined) this.#tables.leaveQueue(attempt);
    return { kind: "granted", token };
  }

  /** A session of another boot gets its last ttl first, so that what follows sees one clock. */
  #asked({ sessionId, resource }: contract.GrantRequest, at: Moment): Asked {
    const asked = this.#tables.asked(sessionId, resource, at);
    const end = asked.row?.sessionEnd;
    if (!asked.lives || end === undefined || end.bootId === at.bootId) return asked;
    this.#tables.adoptForeignSessions(at, this.#host.stepMs);
    return this.#tables.asked(sessionId, resource, at);
  }

  renew(request: contract.RenewRequest): Promise<contract.RenewOutcome> {
    const { sessionId: id } = request;
    return this.#writer.write(request.limitMs, () => {
      const at = this.#now();
      const ttlMs = this.#tables.prolong(id, at, this.#host.stepMs);
      if (ttlMs === undefined) return { kind: "gone" };
      for (const attempt of request.withdrawn) this.#tables.withdraw(attempt, id, at.nowMs);
      for (const ref of request.acknowledged) this.#tables.acknowledge(ref, id);
      return { kind: "renewed", ttlMs, gone: this.#tables.revoked(id) };
    });
  }

  release(request: contract.ReleaseRequest): Promise<contract.ReleaseOutcome> {
    return this.#writer.write(request.limitMs, () => {
      const at = this.#lately();
      // Since when it is free, a reading that is a step old does not tell: the first in line would have its head start cut short.
      const freedMs = Math.round(at.nowMs + this.#parts.clock.now() - this.#readAt);
      const released = this.#tables.release(request, request.sessionId, at, freedMs);
      return { kind: released ? "released" : "notHeld" };
    });
  }

  withdraw(request: contract.AttemptRequest): Promise<void> {
    return this.#writer.write(request.limitMs, () =>
      this.#tables.withdraw(request, request.sessionId, this.#host.now()),
    );
  }

  endSession(request: contract.SessionRequest): Promise<void> {
    return this.#writer.write(request.limitMs, () =>
      this.#tables.endSession(request.sessionId, this.#host.now()),
    );
  }

  async untilFree(
    request: contract.AttemptRequest & { readonly signal: AbortSignal },
  ): Promise<void> {
    const { signal, unlink } = linkSignals(request.signal, this.#closing.signal);
    const subscription = this.#waker.subscribe();
    try {
      for (;;) {
        const waitMs = await this.#read(() => this.#waitFor(request));
        if (waitMs === 0) return;
        const { patienceMs, sureMs } = await this.#read(() => this.#patienceOf(request));
        subscription.patienceMs = patienceMs;
        await subscription.next(Math.min(waitMs, sureMs), signal);
      }
    } finally {
      subscription.close();
      unlink();
    }
  }

  #waitFor(request: contract.AttemptRequest): number {
    const at = this.#now();
    const row = this.#tables.lease(request.resource);
    const foreign = row?.sessionEnd !== undefined && row.sessionEnd.bootId !== at.bootId;
    // Only a write transaction may judge a session of another boot: ask for the grant.
    if (foreign) return 0;
    return lookAgainInMs(row, this.#tables.head(request.resource, at), request.attempt, at);
  }

  /** How many writes may pass, so to say, and for how long that is sure: those before it may die, and it be the next. */
  #patienceOf({ resource, attempt }: contract.AttemptRequest): {
    readonly patienceMs: number;
    readonly sureMs: number;
  } {
    const { count, sureMs } = this.#tables.ahead(resource, attempt, this.#now());
    const patienceMs = Math.max(0, count - ALERT) * TURN_MS;
    return { patienceMs, sureMs: patienceMs === 0 ? Number.POSITIVE_INFINITY : sureMs };
  }

  async read(request: contract.ReadRequest): Promise<contract.ReadAnswer> {
    const { resource, consistency } = request;
    const range = { prefix: resource, limit: 1 };
    const [first] = await this.#read(() => this.#tables.held(range, this.#now(), decodeRecord));
    const holder = first?.resource === resource ? first.holder : undefined;
    return { resource, holder, evidence: { consistency, ageMs: 0 } };
  }

  async list(request: contract.ListRequest): Promise<contract.ListPage> {
    const range = { ...request, limit: request.limit + 1 };
    const held = await this.#read(() => this.#tables.held(range, this.#now()));
    const leases = held.slice(0, request.limit);
    return { leases, next: held.length > request.limit ? leases.at(-1)?.resource : undefined };
  }

  async *watch(request: contract.WatchRequest): AsyncIterable<contract.LeaseView> {
    const seen = new Map<string, bigint>();
    const { signal, unlink } = linkSignals(request.signal, this.#closing.signal);
    const subscription = this.#waker.subscribe();
    const range = { prefix: request.prefix, limit: -1 };
    try {
      while (!signal.aborted) {
        const held = await this.#read(() => this.#tables.held(range, this.#now()));
        yield* changes(seen, held);
        request.onCaughtUp?.();
        await subscription.next(firstExpiryMs(held), signal).catch(() => undefined);
      }
    } finally {
      subscription.close();
      unlink();
    }
  }

  revoke(request: contract.RevokeRequest): Promise<contract.RevokeOutcome> {
    return this.#writer.write(request.limitMs, () => {
      const session = this.#tables.lease(request.resource)?.session;
      const revoked = session != null && this.#tables.revoke(request, session, this.#now());
      return { kind: revoked ? "revoked" : "notHeld" };
    });
  }

  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    this.#closing.abort(new StoreUnavailableError(`${this.#file} is closed.`, { applied: "no" }));
    this.#writer.close();
    this.#waker.close();
    this.#connection.close();
  }

  #now(): Moment {
    this.#readAt = this.#parts.clock.now();
    this.#latest = { bootId: this.#host.bootId, nowMs: this.#host.now() };
    return this.#latest;
  }

  /**
   * For who takes and who frees: by a reading that is a step old sessions only live that much longer, and it costs a tenth
   * less. Never for who prolongs: that would end a session early.
   */
  #lately(): Moment {
    const fresh = this.#parts.clock.now() - this.#readAt < this.#host.stepMs;
    return fresh && this.#latest !== undefined ? this.#latest : this.#now();
  }

  /** Readers are never blocked in WAL mode, except for the moment in which another process recovers the file. */
  async #read<T>(work: () => T): Promise<T> {
    for (let tries = 1; ; tries += 1) {
      this.#closing.signal.throwIfAborted();
      try {
        return work();
      } catch (error) {
        if (!isBusy(error) || tries >= READ_TRIES) throw failure(error, this.#file);
        await new Promise<void>((again) =>
          this.#parts.clock.setTimer(again, 1, { keepAlive: true }),
        );
      }
    }
  }
}
