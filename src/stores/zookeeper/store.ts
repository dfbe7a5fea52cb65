// The store contract on ZooKeeper 3.6 and newer. A session is a ZooKeeper session with its own
// connection (session.ts). A lease is the first of the ephemeral, sequential nodes below its
// resource, and its token is the transaction that created that node (grant.ts). ADR 012 explains
// what a renewal proves.

import type { Clock } from "../../async/clock.ts";
import { SessionOverError } from "../../clients/zookeeper/failures.ts";
import { Link } from "../../clients/zookeeper/link.ts";
import { closeSession, sync } from "../../clients/zookeeper/messages.ts";
import type { Settings } from "../../clients/zookeeper/options.ts";
import type { Reader } from "../../clients/zookeeper/reader.ts";
import { StoreUnavailableError } from "../../core/errors.ts";
import type * as contract from "../contract.ts";
import type { Store } from "../contract.ts";
import { findHolder, listPage, revoke, viewOf } from "./read.ts";
import { LeaseSession } from "./session.ts";
import { watch } from "./watch.ts";

export class ZooKeeperStore implements Store {
  readonly guarantees: contract.Guarantees;
  readonly #settings: Settings;
  readonly #clock: Clock;
  readonly #reader: Reader;
  readonly #sessions = new Map<string, LeaseSession>();
  readonly #opening = new Set<Link>();
  readonly #parents = new Set<string>();
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
      // An expiry is rounded up to a tick, and checked once per tick.
      expiryLagMs: 2 * settings.tickMs,
      wakeUp: "push",
      fifo: true,
      durable: true,
    };
  }

  async openSession(request: contract.OpenSessionRequest): Promise<{ readonly ttlMs: number }> {
    this.#throwIfClosed();
    this.#forgetExpired();
    const { sessionId, limitMs, events } = request;
    const { names, acl } = this.#settings;
    const settings = { ...this.#settings.link, prefersLeader: true };
    const clock = this.#clock;
    const link = new Link(settings, clock, Math.ceil(request.ttlMs));
    const session = new LeaseSession({ link, clock, names, acl, parents: this.#parents, events });
    this.#opening.add(link);
    try {
      await session.open(limitMs);
      this.#throwIfClosed();
    } catch (error) {
      link.close(new SessionOverError("opening the session failed"), true);
      throw error;
    } finally {
      this.#opening.delete(link);
    }
    const former = this.#sessions.get(sessionId);
    former?.link.close(new SessionOverError("the session was opened again"), true);
    session.aliveUntil = clock.now() + link.timeoutMs;
    this.#sessions.set(sessionId, session);
    return { ttlMs: link.timeoutMs };
  }

  grant(request: contract.GrantRequest): Promise<contract.GrantOutcome> {
    return this.#ask(request, { kind: "gone" }, (session) => session.grant(request));
  }

  renew(request: contract.RenewRequest): Promise<contract.RenewOutcome> {
    const { sessionId, withdrawn, limitMs } = request;
    return this.#ask(request, { kind: "gone" }, async (session) => {
      // A withdrawal that fails is repeated by the next renewal. It must not fail this one.
      const withdrawals = withdrawn.map((attempt) =>
        session.withdraw({ sessionId, ...attempt }, limitMs).catch(() => undefined),
      );
      const [outcome] = await Promise.all([session.renew(request), ...withdrawals]);
      return outcome;
    });
  }

  async release(request: contract.ReleaseRequest): Promise<contract.ReleaseOutcome> {
    const isReleased = await this.#ask(request, false, (session) => session.release(request));
    return { kind: isReleased ? "released" : "notHeld" };
  }

  async withdraw(request: contract.AttemptRequest): Promise<void> {
    await this.#ask(request, false, (session) => session.withdraw(request, request.limitMs));
  }

  async endSession({ sessionId, limitMs }: contract.SessionRequest): Promise<void> {
    await this.#ask({ sessionId }, undefined, async (session) => {
      this.#sessions.delete(sessionId);
      try {
        await session.within(limitMs, (call) => call.send(closeSession));
      } finally {
        session.link.close(new SessionOverError("the session was ended"), true);
      }
    });
  }

  async read(request: contract.ReadRequest): Promise<contract.ReadAnswer> {
    this.#throwIfClosed();
    const { resource, consistency, limitMs } = request;
    const parent = this.#settings.names.parent(resource);
    return this.#reader.run(limitMs, async (call) => {
      const isLinearizable = consistency === "linearizable";
      const [, { holder, zxid }] = await Promise.all([
        isLinearizable ? call.send(sync(parent)) : undefined,
        findHolder(call, parent),
      ]);
      // No age: the leader that answers sync may have been replaced without knowing it yet.
      const evidence = { consistency, revision: String(zxid) };
      return { resource, holder: holder && viewOf(holder, this.#clock.wallNow()), evidence };
    });
  }

  async list(request: contract.ListRequest): Promise<contract.ListPage> {
    this.#throwIfClosed();
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
    this.#throwIfClosed();
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
    // Sessions stay at the server until they expire: closing a store releases nothing.
    for (const { link } of this.#sessions.values()) link.close(reason, false);
    for (const link of this.#opening) link.close(reason, true);
    this.#sessions.clear();
    this.#reader.close(reason);
  }

  /** Sends a request of a session. Resolves with `gone` if the session is unknown or expired. */
  async #ask<T>(
    { sessionId }: { readonly sessionId: string },
    gone: T,
    request: (session: LeaseSession) => Promise<T>,
  ): Promise<T> {
    this.#throwIfClosed();
    const session = this.#sessions.get(sessionId);
    if (session === undefined) return gone;
    try {
      return await request(session);
    } catch (error) {
      if (!(error instanceof SessionOverError)) throw error;
      // The server has ended the session, which is final.
      if (this.#sessions.get(sessionId) === session) this.#sessions.delete(sessionId);
      return gone;
    }
  }

  /** Forgets sessions that were not renewed, whether they could not be or were not meant to be. */
  #forgetExpired(): void {
    for (const [sessionId, { aliveUntil, link }] of this.#sessions) {
      if (aliveUntil >= this.#clock.now()) continue;
      this.#sessions.delete(sessionId);
      link.close(new SessionOverError("the session has expired"), false);
    }
  }

  #throwIfClosed(): void {
    if (this.#closing.signal.aborted) throw this.#closing.signal.reason;
  }
}
