// Reports to the sessions of this process what others did to them: a queued attempt was granted, a
// lease was revoked, a lease is wanted. Notifications bring such facts. While they cannot arrive,
// this file polls. For the first waiters it also checks when the time of the holder is up, because
// the database does nothing at that moment.

import type { Clock, Random, Timer } from "../../async/clock.ts";
import type { PgLink } from "../../clients/postgres/link.ts";
import type { SessionEvents } from "../contract.ts";
import { ExpiryChecks } from "../shared/expiry-checks.ts";
import { decodeFact, type Fact, report } from "../shared/facts.ts";
import { Wakeup } from "../shared/wakeup.ts";
import { Listener } from "./listen.ts";

export interface NoticesParts {
  readonly link: Pick<PgLink, "listen">;
  readonly clock: Clock;
  readonly random: Random;
  /** The channel of this process. Empty: it does not listen. */
  readonly channel: string;
  notify(payload: string): Promise<unknown>;
  /** Whether a notified grant can be believed. */
  isCurrent(fact: Fact): boolean;
  /** Called before a fact is reported to its session. */
  onFact(fact: Fact): void;
  /** Reads the facts about these sessions, as shared/facts.ts encodes them. */
  readFacts(sessions: readonly string[]): Promise<readonly string[]>;
  /** Hands the resource off if its holder has expired. Resolves as `CheckExpiry` does. */
  checkExpiry(resource: string, session: string): Promise<number | undefined>;
}

/** How often to poll while notifications cannot arrive and an attempt waits. */
export const POLL_MS = 100;
/** The same for sessions that only hold leases. */
const HOLDER_POLL_MS = 1_000;
/** Leases that are held for less than this do not open a connection for notifications. */
const LISTEN_AFTER_MS = 50;
/** A session without a request for this long is not in use. */
const IN_USE_MS = 30_000;

export class Notices {
  readonly #parts: NoticesParts;
  readonly #listener: Listener | undefined;
  readonly #checks: ExpiryChecks;
  readonly #sessions = new Map<string, SessionEvents>();
  /** The sessions of queued attempts, by attempt. */
  readonly #waiting = new Map<string, string>();
  readonly #watchers = new Set<Wakeup>();
  #start: Timer | undefined;
  #inUseUntil = 0;
  #isPolling = false;
  readonly #pollNow: Wakeup;
  readonly #closing = new AbortController();

  constructor(parts: NoticesParts) {
    this.#parts = parts;
    const { link, clock, random, channel, notify } = parts;
    const onNotification = (payload: string): void => this.#received(payload);
    const onChange = (): void => this.#changed();
    this.#listener =
      channel === ""
        ? undefined
        : new Listener({ link, clock, random, channel, notify, onNotification, onChange });
    this.#pollNow = new Wakeup(clock, {});
    this.#checks = new ExpiryChecks(clock, (key) => this.#checkExpiry(key));
  }

  get isListening(): boolean {
    return this.#listener?.isListening ?? false;
  }

  openSession(id: string, events: SessionEvents | undefined): void {
    if (events !== undefined) this.#sessions.set(id, events);
  }

  endSession(id: string): void {
    this.#sessions.delete(id);
    for (const [attempt, session] of this.#waiting)
      if (session === id) this.#waiting.delete(attempt);
  }

  /** The session holds a lease, or was renewed. */
  used(id: string): void {
    if (!this.#sessions.has(id)) return;
    this.#inUseUntil = this.#parts.clock.now() + IN_USE_MS;
    if (this.isListening) this.#listener?.need();
    else this.#start ??= this.#parts.clock.setTimer(() => this.#startListening(), LISTEN_AFTER_MS);
  }

  /** An attempt of the session is in the queue. */
  queued(id: string, resource: string, attempt: string, checkInMs: number | undefined): void {
    if (!this.#sessions.has(id)) return;
    this.#waiting.set(attempt, id);
    this.#pollNow.notify();
    this.planCheck(id, resource, checkInMs);
    this.#startListening();
  }

  /** Plans the check of the holder, if the session is one of the first waiters. */
  planCheck(id: string, resource: string, checkInMs: number | undefined): void {
    const key = JSON.stringify([resource, id]);
    if (checkInMs === undefined) this.#checks.cancel(key);
    // One millisecond more, because a session is alive until the very end of its time.
    else this.#checks.checkIn(key, checkInMs + 1);
  }

  /** The attempt does not wait any more. */
  settled(attempt: string): void {
    this.#waiting.delete(attempt);
  }

  /** A renewal reports the grant. If no notification did, the connection may be dead. */
  learned(attempt: string): void {
    if (this.#waiting.delete(attempt)) this.#listener?.check();
  }

  /** Wakes up after every change of a lease, as long as notifications arrive. */
  addWatcher(wakeup: Wakeup): () => void {
    this.#watchers.add(wakeup);
    this.#listener?.need();
    return () => this.#watchers.delete(wakeup);
  }

  close(): void {
    this.#closing.abort();
    this.#start?.cancel();
    this.#listener?.close();
    this.#checks.close();
    this.#sessions.clear();
    this.#waiting.clear();
  }

  /** Every role that can connect to the database can send notifications: S8. */
  #received(payload: string): void {
    if (payload === "changed") for (const { notify } of this.#watchers) notify();
    else this.#deliver(payload);
  }

  #deliver(text: string): void {
    const fact = decodeFact(text);
    const events = fact && this.#sessions.get(fact.session);
    if (fact === undefined || events === undefined || !this.#parts.isCurrent(fact)) return;
    if (fact.kind === "granted") this.settled(fact.grant.attempt);
    this.#parts.onFact(fact);
    report(events, fact);
  }

  #startListening(): void {
    this.#start?.cancel();
    this.#start = undefined;
    this.#listener?.need();
    void this.#poll();
  }

  /** What others did before notifications arrived, or when they stopped, is read now. */
  #changed(): void {
    for (const { notify } of this.#watchers) notify();
    void this.#read([...this.#sessions.keys()]);
    void this.#poll();
  }

  async #poll(): Promise<void> {
    const { clock } = this.#parts;
    const { signal } = this.#closing;
    if (this.#isPolling) return;
    this.#isPolling = true;
    const isNeeded = (): boolean => this.#waiting.size > 0 || clock.now() < this.#inUseUntil;
    while (isNeeded() && !this.isListening && !signal.aborted) {
      const delayMs = this.#waiting.size > 0 ? POLL_MS : HOLDER_POLL_MS;
      this.#pollNow.reset();
      await this.#pollNow.wait(delayMs, signal).catch(() => undefined);
      if (!this.isListening) await this.#read([...this.#sessions.keys()]);
    }
    this.#isPolling = false;
  }

  /** Reads what notifications have not reported. A failure is repeated by the next renewal. */
  async #read(sessions: readonly string[]): Promise<void> {
    if (sessions.length === 0 || this.#closing.signal.aborted) return;
    const facts = await this.#parts.readFacts(sessions).catch(() => []);
    for (const fact of facts) this.#deliver(fact);
  }

  #checkExpiry(key: string): Promise<number | undefined> {
    const [resource = "", session = ""] = JSON.parse(key) as string[];
    return this.#parts.checkExpiry(resource, session);
  }
}
