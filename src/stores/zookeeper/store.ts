// The store on ZooKeeper (3.6 and up). Read it beside memory.ts, which says the same without a server. A session is a
// ZooKeeper session with a connection of its own; a lease is the first of the ephemeral, numbered nodes below its resource
// (zookeeper/place.ts); its token is the transaction that created that node. Why, and what a renewal proves: ADR 012.

import type { Clock } from "../../async/clock.ts";
import { linkSignals } from "../../async/signals.ts";
import { SessionOverError } from "../../clients/zookeeper/failures.ts";
import { Link } from "../../clients/zookeeper/link.ts";
import { closeSession, sync } from "../../clients/zookeeper/messages.ts";
import type { Settings } from "../../clients/zookeeper/options.ts";
import type { Reader } from "../../clients/zookeeper/reader.ts";
import { StoreUnavailableError } from "../../core/errors.ts";
import type * as contract from "../contract.ts";
import type { Store } from "../contract.ts";
import { LeaseSession, unlessOver } from "./lease-session.ts";
import { KnownParents } from "./parents.ts";
import { listPage, lookAt, viewOf } from "./reading.ts";
import { revoke } from "./revoking.ts";
import { untilTurn } from "./waiting.ts";
import { watch } from "./watching.ts";

export class ZooKeeperStore implements Store {
  readonly guarantees: contract.Guarantees;
  readonly #settings: Settings;
  readonly #clock: Clock;
  readonly #reader: Reader;
  readonly #sessions = new Map<string, LeaseSession>();
  readonly #opening = new Set<Link>();
  readonly #parents = new KnownParents();
  readonly #closing = new AbortController();

  constructor(settings: Settings, clock: Clock, reader: Reader) {
    this.#settings = settings;
    this.#clock = clock;
    this.#reader = reader;
    this.guarantees = {
      store: "zookeeper",
      tokenSource: "the transaction (czxid) that created the holder's node: one counter for all",
      tokenFalls: "when the ensemble loses its data or is restored from an older copy",
      expiryClock: "the leader's monotonic clock",
      ttlStepMs: 1,
      // Rounded up to a tick, and swept once per tick.
      expiryLagMs: 2 * settings.tickMs,
      wakeUp: "push",
      fifo: true,
      durable: true,
    };
  }

  async openSession(request: contract.OpenSessionRequest): Promise<{ readonly ttlMs: number }> {
    this.#refuseWhenClosed();
    this.#forgetExpired();
    const { sessionId, limitMs } = request;
    const settings = { ...this.#settings.link, prefersLeader: true };
    const link = new Link(settings, this.#clock, Math.ceil(request.ttlMs));
    const { names, acl } = this.#settings;
    const session = new LeaseSession({
      link,
      clock: this.#clock,
      names,
      acl,
      parents: this.#parents,
    });
    this.#opening.add(link);
    try {
      await session.open(limitMs);
      this.#refuseWhenClosed();
    } catch (error) {
      link.close(new SessionOverError("opening the session failed"), true);
      throw error;
    } finally {
      this.#opening.delete(link);
    }
    this.#sessions
      .get(sessionId)
      ?.link.close(new SessionOverError("the session was opened anew"), true);
    session.aliveUntil = this.#clock.now() + link.timeoutMs;
    this.#sessions.set(sessionId, session);
    return { ttlMs: link.timeoutMs };
  }

  async grant(request: contract.GrantRequest): Promise<contract.GrantOutcome> {
    const session = this.#session(request.sessionId);
    if (session === undefined) return { kind: "gone" };
    return this.#unlessOver(request.sessionId, session.grant(request), { kind: "gone" });
  }

  async renew(request: contract.RenewRequest): Promise<contract.RenewOutcome> {
    const { sessionId, withdrawn, acknowledged, limitMs } = request;
    const session = this.#session(sessionId);
    if (session === undefined) return { kind: "gone" };
    const renewed = async (): Promise<contract.RenewOutcome> => {
      // The next renewal repeats a withdrawal that fails. It must not put this one in doubt.
      const giveBack = withdrawn.map(({ resource, attempt }) =>
        session.withdraw(resource, attempt, limitMs).catch(() => undefined),
      );
      const [gone] = await Promise.all([session.renew(acknowledged, limitMs), ...giveBack]);
      session.aliveUntil = this.#clock.now() + session.link.timeoutMs;
      return { kind: "renewed", ttlMs: session.link.timeoutMs, gone };
    };
    return this.#unlessOver(sessionId, renewed(), { kind: "gone" });
  }

  async release(request: contract.ReleaseRequest): Promise<contract.ReleaseOutcome> {
    const session = this.#session(request.sessionId);
    if (session === undefined) return { kind: "notHeld" };
    const released = session.release(request, request.limitMs);
    const wasHeld = await this.#unlessOver(request.sessionId, released, false);
    return { kind: wasHeld ? "released" : "notHeld" };
  }

  async withdraw(request: contract.AttemptRequest): Promise<void> {
    const { sessionId, resource, attempt, limitMs } = request;
    const session = this.#session(sessionId);
    if (session === undefined) return;
    await this.#unlessOver(sessionId, session.withdraw(resource, attempt, limitMs), undefined);
  }

  async endSession(request: contract.SessionRequest): Promise<void> {
    const session = this.#session(request.sessionId);
    if (session === undefined) return;
    this.#sessions.delete(request.sessionId);
    const { link } = session;
    const ended = session.within(request.limitMs, async (call) => {
      await call.send(closeSession);
    });
    try {
      await unlessOver(ended, undefined);
    } finally {
      link.close(new SessionOverError("the session was ended"), true);
    }
  }

  async untilFree(
    request: contract.AttemptRequest & { readonly signal: AbortSignal },
  ): Promise<void> {
    const { signal, unlink } = linkSignals(request.signal, this.#closing.signal);
    try {
      signal.throwIfAborted();
      const session = this.#sessions.get(request.sessionId);
      // Asking for the grant will tell that it is gone.
      if (session === undefined) return;
      const parent = this.#settings.names.parent(request.resource);
      await untilTurn({ session, clock: this.#clock, parent, request, signal });
    } finally {
      unlink();
    }
  }

  async read(request: contract.ReadRequest): Promise<contract.ReadAnswer> {
    this.#refuseWhenClosed();
    const { resource, consistency, limitMs } = request;
    const parent = this.#settings.names.parent(resource);
    return this.#reader.run(limitMs, async (call) => {
      const isLinearizable = consistency === "linearizable";
      const [, { holder, zxid }] = await Promise.all([
        isLinearizable ? call.send(sync(parent)) : undefined,
        lookAt(call, parent),
      ]);
      // No age: sync is answered by a leader that may have been replaced without knowing it yet.
      const evidence = { consistency, revision: String(zxid) };
      return { resource, holder: holder && viewOf(holder, this.#clock.wallNow()), evidence };
    });
  }

  async list(request: contract.ListRequest): Promise<contract.ListPage> {
    this.#refuseWhenClosed();
    const { names } = this.#settings;
    return this.#reader.run(request.limitMs, async (call) => {
      const [, page] = await Promise.all([
        call.send(sync(names.leases)),
        listPage(call, { names, clock: this.#clock }, request),
      ]);
      return page;
    });
  }

  watch(request: contract.WatchRequest): AsyncIterable<contract.LeaseView> {
    const { names } = this.#settings;
    const closing = this.#closing.signal;
    return watch(request, { reader: this.#reader, clock: this.#clock, names, closing });
  }

  async revoke(request: contract.RevokeRequest): Promise<contract.RevokeOutcome> {
    this.#refuseWhenClosed();
    const { names } = this.#settings;
    const done = await this.#reader.run(request.limitMs, async (call) => {
      const [, revoked] = await Promise.all([
        call.send(sync(names.leases)),
        revoke(call, names, request),
      ]);
      return revoked;
    });
    return { kind: done ? "revoked" : "notHeld" };
  }

  async close(): Promise<void> {
    if (this.#closing.signal.aborted) return;
    const reason = new StoreUnavailableError("The ZooKeeper store is closed.", { applied: "no" });
    this.#closing.abort(reason);
    // The sessions go on at the server until they expire: closing a client releases nothing.
    for (const { link } of this.#sessions.values()) link.close(reason, false);
    for (const link of this.#opening) link.close(reason, true);
    this.#sessions.clear();
    this.#reader.close(reason);
  }

  #session(sessionId: string): LeaseSession | undefined {
    this.#refuseWhenClosed();
    return this.#sessions.get(sessionId);
  }

  /** A session that the server has ended is forgotten: nothing brings it back. */
  async #unlessOver<T>(sessionId: string, request: Promise<T>, over: T): Promise<T> {
    const session = this.#sessions.get(sessionId);
    const outcome = await unlessOver(request, over);
    if (session?.link.isOver && this.#sessions.get(sessionId) === session)
      this.#sessions.delete(sessionId);
    return outcome;
  }

  /** Their holders stopped by their own clocks, because the ensemble could not be reached, or never meant to renew. */
  #forgetExpired(): void {
    for (const [sessionId, { aliveUntil, link }] of this.#sessions) {
      if (aliveUntil >= this.#clock.now()) continue;
      this.#sessions.delete(sessionId);
      link.close(new SessionOverError("the session has expired"), false);
    }
  }

  #refuseWhenClosed(): void {
    if (this.#closing.signal.aborted) throw this.#closing.signal.reason;
  }
}
