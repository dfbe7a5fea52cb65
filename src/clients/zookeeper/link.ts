// A ZooKeeper session over one connection after another. A connection is made when something is to be sent, so that the
// session is kept alive only by what its holder asks for; where it breaks, whatever was under way has failed, and the next
// request tries every host of the list once.
//
// What a renewal proves depends on where it goes (ADR 012). The clock that ends a session runs at the leader. A request
// resets it there only over a connection to the leader itself (or to a server without an ensemble); over a follower it does
// not. But when a session moves to a new connection, every server asks the leader, who resets the clock. So resetExpiry()
// moves the session where its connection is not to the leader.

import type { Duplex } from "node:stream";
import type { Clock } from "../../async/clock.ts";
import { StoreUnavailableError, StoreUnusableError } from "../../core/errors.ts";
import { connectError, isHangUp, refusalOf, SessionOverError } from "./failures.ts";
import { addressOf, dialWithin, type Host, placeOf, type ZooKeeperDial } from "./hosts.ts";
import { findLeader, type Probe, resetsExpiry } from "./leader.ts";
import { closeSession, digestAuth, ERROR, type Message, type WatchEvent, XID } from "./messages.ts";
import { ConnectionLostError, type Reply, Wire } from "./wire.ts";

export interface LinkSettings {
  readonly hosts: readonly Host[];
  readonly dial: ZooKeeperDial;
  /** "user:password" of the digest scheme. */
  readonly auth: string | undefined;
  /** For all hosts of the list together. */
  readonly connectMs: number;
  /** Go to the leader where it can be found. */
  readonly prefersLeader: boolean;
}

/** A moment in the life of a connection. */
export interface Mark {
  readonly wire: Wire | undefined;
  readonly heard: number;
}

const NEW_SESSION = Buffer.alloc(16);
/** A host that is down must not use up the time of those that are not. */
const HOST_MIN_MS = 250;
const IDLE_MAX_MS = 1_000;
/**
 * A server whose data are older than what this session has seen hangs up in the handshake. It has caught up a moment later, or
 * its neighbour behind the same address answers; without another try, every move of the session could fail for it.
 */
const CATCH_UP_MS: readonly number[] = [5, 20];
const MOVED = "the session has moved to another connection";
const MOVED_TRIES = 2;

export class Link {
  readonly place: string;
  readonly #settings: LinkSettings;
  readonly #clock: Clock;
  #sessionId = 0n;
  #password: Uint8Array = NEW_SESSION;
  #timeoutMs: number;
  #lastZxid = 0n;
  #wire: Wire | undefined;
  #connecting: Promise<Wire> | undefined;
  /** Requests wait while the session moves. */
  #moving: Promise<unknown> | undefined;
  /** When the present connection asked for the session. */
  #askedAt = 0;
  #over: Error | undefined;
  /** Aborts when the link is over: whatever is being dialled ends with it. */
  readonly #ending = new AbortController();
  /** Which host of the list is asked first. */
  #first = 0;
  #isDirect: Promise<boolean> = Promise.resolve(false);
  onEvent: (event: WatchEvent) => void = () => undefined;
  /** A connection ended: watches are gone with it. */
  onLost: () => void = () => undefined;

  constructor(settings: LinkSettings, clock: Clock, timeoutMs: number) {
    this.#settings = settings;
    this.#clock = clock;
    this.#timeoutMs = timeoutMs;
    this.place = settings.hosts.map(placeOf).join(",");
  }

  get sessionId(): bigint {
    return this.#sessionId;
  }

  /** What the server granted; before that, what is asked for. */
  get timeoutMs(): number {
    return this.#timeoutMs;
  }

  get isConnected(): boolean {
    return this.#live() !== undefined;
  }

  get isOver(): boolean {
    return this.#over !== undefined;
  }

  /** Fails with ConnectionLostError when the answer is unknown, with SessionOverError when the session has ended. */
  async send(message: Message): Promise<Reply> {
    for (let tries = 1; ; tries += 1) {
      while (this.#moving !== undefined) await this.#moving;
      const wire = this.#live() ?? (await this.connected());
      const reply = await wire.send(message);
      if (reply.error === ERROR.sessionExpired) {
        this.#finish(new SessionOverError("the session has expired"));
        throw this.#over;
      }
      if (reply.error !== ERROR.sessionMoved) return reply;
      this.#leave(wire);
      // It was refused, and so not carried out: a new connection has the session again, and the next try its answer.
      if (tries === MOVED_TRIES) throw new ConnectionLostError(MOVED);
    }
  }

  /** The connection; made first where there is none. */
  connected(): Promise<Wire> {
    const wire = this.#live();
    if (wire !== undefined) return Promise.resolve(wire);
    if (this.#over !== undefined) return Promise.reject(this.#over);
    this.#connecting ??= this.#connect().finally(() => {
      this.#connecting = undefined;
    });
    return this.#connecting;
  }

  /**
   * Makes sure that the clock that ends the session is reset, not before this call, by what is done here or by any
   * request that is sent next.
   */
  async resetExpiry(): Promise<void> {
    const since = this.#clock.now();
    await this.connected();
    // A move that someone else has begun may have asked the leader a moment too early: then another one is due.
    while (this.#askedAt < since && !(await this.#isDirect)) {
      this.#moving ??= this.#move().finally(() => {
        this.#moving = undefined;
      });
      await this.#moving;
    }
  }

  /** Takes the session to a new connection: by that the leader resets its clock, whichever server is asked. */
  async #move(): Promise<void> {
    const before = this.#live();
    // What is under way would be lost with the connection; but a connection that has gone silent is lost anyway.
    await before?.idle(this.#clock, Math.min(IDLE_MAX_MS, this.#timeoutMs / 10));
    if (before !== undefined && before === this.#wire) {
      this.#wire = undefined;
      before.end(new Error("the session moves to a new connection"));
      this.onLost();
    }
    await this.connected();
  }

  /**
   * Another connection has the session, one that was given up long ago perhaps and came late, and whatever goes over this one
   * is refused. What is under way is to hear so.
   */
  #leave(wire: Wire): void {
    if (this.#wire !== wire) return;
    this.#wire = undefined;
    this.#learnFrom(wire);
    this.onLost();
    void wire.idle(this.#clock, IDLE_MAX_MS).then(() => wire.end(new Error(MOVED)));
  }

  /** A server that knows less than this is no good for what comes next. */
  #learnFrom(wire: Wire): void {
    if (wire.lastZxid > this.#lastZxid) this.#lastZxid = wire.lastZxid;
  }

  /** To be compared later: has anything been heard since? */
  mark(): Mark {
    return { wire: this.#wire, heard: this.#wire?.heard ?? 0 };
  }

  /** Gives up a connection on which nothing was heard since the mark, long before TCP would. */
  dropSilent({ wire, heard }: Mark): void {
    if (wire?.heard === heard) wire.end(new Error("nothing was heard in time"));
  }

  /** Ends the connection, and with `andSession` tells the server that the session is over too. */
  close(reason: Error, andSession: boolean): void {
    this.#wire?.close(andSession ? closeSession : undefined);
    this.#finish(reason);
  }

  #live(): Wire | undefined {
    return this.#wire?.hasEnded === false ? this.#wire : undefined;
  }

  #finish(reason: Error): void {
    if (this.#over !== undefined) return;
    this.#over = reason;
    this.#ending.abort(reason);
    this.#wire?.end(reason);
    this.onLost();
  }

  async #connect(): Promise<Wire> {
    let made = await this.#tryEach();
    for (const pauseMs of CATCH_UP_MS) {
      if (made instanceof Wire || this.#lastZxid === 0n || !made.every(isHangUp)) break;
      await new Promise<void>((resolve) => {
        this.#clock.setTimer(resolve, pauseMs, { keepAlive: true });
      });
      if (this.#over !== undefined) throw this.#over;
      made = await this.#tryEach();
    }
    if (made instanceof Wire) return made;
    this.#first = (this.#first + 1) % this.#settings.hosts.length;
    throw connectError(this.place, made);
  }

  /** Every host of the list once; what each said where none would do. */
  async #tryEach(): Promise<Wire | Error[]> {
    const { hosts, connectMs } = this.#settings;
    // Not so long that the session would be over before the next one is tried.
    const shareMs = Math.min(connectMs / hosts.length, this.#timeoutMs / 2);
    const limitMs = Math.max(HOST_MIN_MS, shareMs);
    const causes: Error[] = [];
    if (this.#settings.prefersLeader)
      this.#first = (await findLeader(hosts, this.#probe())) ?? this.#first;
    for (let tried = 0; tried < hosts.length; tried += 1) {
      const index = (this.#first + tried) % hosts.length;
      const host = hosts[index] as Host;
      try {
        const wire = await this.#connectTo(host, limitMs);
        this.#first = index;
        return wire;
      } catch (error) {
        if (this.#over !== undefined) throw this.#over;
        if (error instanceof StoreUnusableError) throw error;
        causes.push(error as Error);
      }
    }
    return causes;
  }

  #connectTo(host: Host, limitMs: number): Promise<Wire> {
    const { dial } = this.#settings;
    const begin = (stream: Duplex): Promise<Wire> => this.#begin(new Wire(stream), stream, host);
    return dialWithin(
      host,
      { dial, clock: this.#clock, limitMs, signal: this.#ending.signal },
      begin,
    );
  }

  async #begin(wire: Wire, stream: Duplex, host: Host): Promise<Wire> {
    const askedAt = this.#clock.now();
    const answer = await wire.shakeHands({
      lastZxid: this.#lastZxid,
      timeoutMs: this.#timeoutMs,
      sessionId: this.#sessionId,
      password: this.#password,
    });
    if (this.#over !== undefined) {
      wire.end(this.#over);
      throw this.#over;
    }
    if (answer.timeoutMs <= 0) {
      wire.end(new Error("expired"));
      this.#finish(new SessionOverError("the session has expired"));
      throw this.#over;
    }
    if (answer.readOnly) {
      wire.end(new Error("read-only"));
      throw new StoreUnavailableError(`${placeOf(host)} is read-only: it has no quorum`, {
        applied: "no",
      });
    }
    this.#sessionId = answer.sessionId;
    this.#password = answer.password;
    this.#timeoutMs = answer.timeoutMs;
    if (this.#settings.auth !== undefined) {
      const { error } = await wire.send(digestAuth(this.#settings.auth), XID.auth);
      if (error !== 0) throw refusalOf(error, placeOf(host));
    }
    this.#wire = wire;
    this.#askedAt = askedAt;
    wire.onEvent = (event) => this.onEvent(event);
    wire.onEnd = () => {
      this.#learnFrom(wire);
      if (this.#wire !== wire) return;
      this.#wire = undefined;
      this.onLost();
    };
    const probe = { ...this.#probe(), address: addressOf(stream) };
    this.#isDirect = resetsExpiry(wire, host, this.#settings.hosts, probe).catch(() => false);
    return wire;
  }

  #probe(): Probe {
    const limitMs = Math.min(HOST_MIN_MS, this.#timeoutMs / 10);
    return { dial: this.#settings.dial, clock: this.#clock, limitMs, signal: this.#ending.signal };
  }
}
