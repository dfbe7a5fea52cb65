// A ZooKeeper session over one connection after another. A connection is opened when a message has
// to be sent, so only the requests of its holder keep a session alive. If it breaks, the requests
// in flight fail, and the next request tries every host of the list once.
//
// What a renewal proves depends on the server that it goes through (ADR 012). The clock that ends a
// session runs at the leader. A request resets it only over a connection to the leader, or to a
// standalone server. But when a session moves to a new connection, every server asks the leader,
// which resets the clock. So resetExpiry() moves a session that is not connected to the leader.

import type { Duplex } from "node:stream";
import type { Clock } from "../../async/clock.ts";
import { pause } from "../../async/waits.ts";
import { StoreUnavailableError, StoreUnusableError } from "../../core/errors.ts";
import { connectError, isHangUp, refusalOf, SessionOverError } from "./failures.ts";
import {
  type Attempt,
  addressOf,
  dialWithin,
  findLeader,
  type Host,
  placeOf,
  resetsExpiry,
  type ZooKeeperDial,
} from "./hosts.ts";
import { closeSession, digestAuth, ERROR, type Message, type WatchEvent, XID } from "./messages.ts";
import { ConnectionLostError, type Reply, Wire } from "./wire.ts";

export interface LinkSettings {
  readonly hosts: readonly Host[];
  readonly dial: ZooKeeperDial;
  /** "user:password" for the digest scheme. */
  readonly auth: string | undefined;
  /** The limit for all hosts together. */
  readonly connectMs: number;
  /** Connect to the leader if it can be found. */
  readonly prefersLeader: boolean;
}

/** A moment in the life of a connection. */
export interface Mark {
  readonly wire: Wire | undefined;
  readonly received: number;
}

const NEW_SESSION = Buffer.alloc(16);
/** A host that is down must not use up the time of the others. */
const HOST_MIN_MS = 250;
const IDLE_MAX_MS = 1_000;
/**
 * A server that has not applied everything this session has seen closes the connection. It catches
 * up in a moment, or its neighbour at the same address answers.
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
  /** Settles when the former connection has ended. */
  #leaving: Promise<void> | undefined;
  /** When the current connection requested the session. */
  #requestedAt = 0;
  #over: Error | undefined;
  /** Aborts when the link is over, and ends the connections that are being opened. */
  readonly #ending = new AbortController();
  /** The index of the host that is tried first. */
  #first = 0;
  /** Whether requests over the current connection reset the clock of the session. */
  #isDirect: Promise<boolean> = Promise.resolve(false);
  onEvent: (event: WatchEvent) => void = () => undefined;
  /** A connection has ended, and its watches with it. */
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

  /** The timeout that the server granted; before that, the requested one. */
  get timeoutMs(): number {
    return this.#timeoutMs;
  }

  get isConnected(): boolean {
    return this.#live() !== undefined;
  }

  get isOver(): boolean {
    return this.#over !== undefined;
  }

  /**
   * Rejects with ConnectionLostError if the outcome is unknown, with SessionOverError if the
   * session has ended.
   */
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
      // The request was rejected, so it was not applied and can be sent over a new connection.
      if (tries === MOVED_TRIES) throw new ConnectionLostError(MOVED);
    }
  }

  /** The connection. Opens one if needed. */
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
   * Makes sure that the clock that ends the session is reset after the beginning of this call:
   * either here, or by the next request.
   */
  async resetExpiry(): Promise<void> {
    const since = this.#clock.now();
    await this.connected();
    // A move that was already under way may have asked the leader too early.
    while (this.#requestedAt < since && !(await this.#isDirect)) {
      this.#moving ??= this.#move().finally(() => {
        this.#moving = undefined;
      });
      await this.#moving;
    }
  }

  /** Moves the session to a new connection, which makes the leader reset its clock. */
  async #move(): Promise<void> {
    const before = this.#live();
    // Requests in flight would be lost with the connection, unless it is dead already.
    if (before !== undefined) await this.#untilIdle(before);
    if (before !== undefined && before === this.#wire) {
      this.#wire = undefined;
      before.end(new Error("the session moves to a new connection"));
      this.onLost();
    }
    await this.connected();
  }

  /**
   * The session belongs to another connection, perhaps one that was given up and arrived late. The
   * server rejects everything on this one. Requests in flight get that answer before the next
   * connection is opened, because its server may close this one.
   */
  #leave(wire: Wire): void {
    if (this.#wire !== wire) return;
    this.#wire = undefined;
    this.#learnFrom(wire);
    this.onLost();
    this.#leaving = this.#untilIdle(wire).then(() => wire.end(new Error(MOVED)));
  }

  #untilIdle(wire: Wire): Promise<void> {
    return wire.idle(this.#clock, Math.min(IDLE_MAX_MS, this.#timeoutMs / 10));
  }

  /** The next server must have applied what this one has. */
  #learnFrom(wire: Wire): void {
    if (wire.lastZxid > this.#lastZxid) this.#lastZxid = wire.lastZxid;
  }

  mark(): Mark {
    return { wire: this.#wire, received: this.#wire?.received ?? 0 };
  }

  /** Ends a connection on which nothing was received since the mark, long before TCP would. */
  dropSilent({ wire, received }: Mark): void {
    if (wire?.received === received) wire.end(new Error("the server did not respond in time"));
  }

  /** Ends the connection. `andSession`: also ends the session at the server. */
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
    await this.#leaving;
    let made = await this.#tryEach();
    for (const pauseMs of CATCH_UP_MS) {
      if (made instanceof Wire || this.#lastZxid === 0n || !made.every(isHangUp)) break;
      await pause(this.#clock, pauseMs, this.#ending.signal);
      made = await this.#tryEach();
    }
    if (made instanceof Wire) return made;
    this.#first = (this.#first + 1) % this.#settings.hosts.length;
    throw connectError(this.place, made);
  }

  /** Tries every host once. Returns the errors if none can be used. */
  async #tryEach(): Promise<Wire | Error[]> {
    const { hosts, connectMs, prefersLeader } = this.#settings;
    // The session must not expire before the next host is tried.
    const shareMs = Math.min(connectMs / hosts.length, this.#timeoutMs / 2);
    const causes: Error[] = [];
    if (prefersLeader) this.#first = (await findLeader(hosts, this.#probe())) ?? this.#first;
    for (let tried = 0; tried < hosts.length; tried += 1) {
      const index = (this.#first + tried) % hosts.length;
      const host = hosts[index] as Host;
      try {
        const attempt = this.#attempt(Math.max(HOST_MIN_MS, shareMs));
        const wire = await dialWithin(host, attempt, (stream) => this.#begin(stream, host));
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

  async #begin(stream: Duplex, host: Host): Promise<Wire> {
    const wire = new Wire(stream);
    const requestedAt = this.#clock.now();
    const answer = await wire.shakeHands({
      lastZxid: this.#lastZxid,
      timeoutMs: this.#timeoutMs,
      sessionId: this.#sessionId,
      password: this.#password,
    });
    if (answer.timeoutMs <= 0) this.#finish(new SessionOverError("the session has expired"));
    if (this.#over !== undefined) {
      wire.end(this.#over);
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
    const { auth, hosts } = this.#settings;
    if (auth !== undefined) {
      const { error } = await wire.send(digestAuth(auth), XID.auth);
      if (error !== 0) throw refusalOf(error, placeOf(host));
    }
    this.#wire = wire;
    this.#requestedAt = requestedAt;
    wire.onEvent = (event) => this.onEvent(event);
    wire.onEnd = () => {
      this.#learnFrom(wire);
      if (this.#wire !== wire) return;
      this.#wire = undefined;
      this.onLost();
    };
    this.#isDirect = resetsExpiry(wire, host, hosts, this.#probe(), addressOf(stream)).catch(
      () => false,
    );
    return wire;
  }

  #attempt(limitMs: number): Attempt {
    const { dial } = this.#settings;
    return { dial, clock: this.#clock, limitMs, signal: this.#ending.signal };
  }

  /** Checking which server leads must not delay the session. */
  #probe(): Attempt {
    return this.#attempt(Math.min(HOST_MIN_MS, this.#timeoutMs / 10));
  }
}
