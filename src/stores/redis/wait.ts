// Reports to the sessions of this process what other processes did to them, and checks for the
// first waiters when the time of the holder is up, because Redis does not report that a key has
// expired. The process subscribes to one channel when its first session opens. A request that may
// be queued is sent after the subscription, so its grant is not missed.

import type { Clock } from "../../async/clock.ts";
import { sign } from "../../clients/redis/digest.ts";
import type { AttemptRequest, Grant, SessionEvents } from "../contract.ts";
import { ExpiryChecks } from "../shared/expiry-checks.ts";
import { decodeFact, type Fact, SessionListeners } from "../shared/facts.ts";
import type { Channels } from "./channels.ts";

/** When to check again after a check that failed, as long as a client takes to reconnect. */
const AFTER_FAILURE_MS = "50";
const SIGNATURE_LENGTH = 40;

export interface NoticesParts {
  readonly channels: Channels;
  /** The channel of this process. */
  readonly channel: string;
  /** Signs the messages of other processes. */
  readonly secret: string;
  readonly clock: Clock;
  /** A notification reports this grant. Resolves with true if the session may use it. */
  confirm(sessionId: string, grant: Grant): Promise<boolean>;
  /** Hands the resource off if its holder has expired. Resolves with `checkInMs` of the script. */
  checkExpiry(resource: string, sessionId: string): Promise<string>;
}

export class Notices {
  readonly #parts: NoticesParts;
  readonly #sessions = new SessionListeners();
  readonly #checks: ExpiryChecks;
  /** The sessions of queued attempts, by resource and attempt. */
  readonly #waiting = new Map<string, Map<string, string>>();
  #listening: Promise<unknown> | undefined;

  constructor(parts: NoticesParts) {
    this.#parts = parts;
    this.#checks = new ExpiryChecks(parts.clock, (resource) => this.#check(resource));
  }

  openSession(sessionId: string, events: SessionEvents | undefined): void {
    if (events === undefined) return;
    this.#listen().catch(() => undefined);
    this.#sessions.open(sessionId, {
      granted: (grant) => void this.#granted(sessionId, grant, events),
      lost: (ref) => events.lost(ref),
      wanted: (ref) => events.wanted(ref),
    });
  }

  endSession(sessionId: string): void {
    this.#sessions.end(sessionId);
    for (const [resource, attempts] of this.#waiting)
      for (const [attempt, waiting] of attempts)
        if (waiting === sessionId) this.left(resource, attempt);
  }

  get isListening(): boolean {
    return this.#parts.channels.isSubscribed(this.#parts.channel);
  }

  /**
   * Resolves when notifications arrive, or after `limitMs`: renewals report the same facts. Rejects
   * if the user may not subscribe.
   */
  untilListening(limitMs: number): Promise<void> {
    return new Promise((resolve, reject) => {
      const late = (): void => resolve();
      const timer = this.#parts.clock.setTimer(late, limitMs, { keepAlive: true });
      this.#listen()
        .then(() => resolve(), reject)
        .finally(() => timer.cancel());
    });
  }

  /** The server has queued the attempt. The request was sent at `sentAt`. */
  queued(
    { resource, attempt, sessionId }: AttemptRequest,
    checkInMs: string,
    sentAt: number,
  ): void {
    const attempts = this.#waiting.get(resource) ?? new Map<string, string>();
    this.#waiting.set(resource, attempts.set(attempt, sessionId));
    this.planCheck(resource, checkInMs, sentAt);
  }

  /** The attempt no longer waits. */
  left(resource: string, attempt: string): void {
    const attempts = this.#waiting.get(resource);
    if (attempts?.delete(attempt) !== true || attempts.size > 0) return;
    this.#waiting.delete(resource);
    this.#checks.cancel(resource);
  }

  /** Counted from when the request was sent. A check that is early learns how early it is. */
  planCheck(resource: string, checkInMs: string, sentAt: number): void {
    const delayMs = this.#toDelayMs(checkInMs, sentAt);
    if (delayMs !== undefined && this.#waiting.has(resource))
      this.#checks.checkIn(resource, delayMs);
  }

  close(): void {
    this.#checks.close();
  }

  #listen(): Promise<unknown> {
    const { channels, channel } = this.#parts;
    this.#listening ??= channels.listen(channel, (message) => {
      const fact = message === undefined ? undefined : this.#decode(message);
      if (fact !== undefined) this.#sessions.deliver(fact);
    });
    return this.#listening;
  }

  /** Undefined if the message is malformed, or if no script of Tenure has signed it. */
  #decode(message: string): Fact | undefined {
    const text = message.slice(SIGNATURE_LENGTH);
    const isSigned = message.slice(0, SIGNATURE_LENGTH) === sign(this.#parts.secret, text);
    return isSigned ? decodeFact(text) : undefined;
  }

  async #granted(sessionId: string, grant: Grant, events: SessionEvents): Promise<void> {
    this.left(grant.resource, grant.attempt);
    if (await this.#parts.confirm(sessionId, grant).catch(() => false)) events.granted(grant);
  }

  /** One session of this process is enough: each checks for all waiters. */
  async #check(resource: string): Promise<number | undefined> {
    for (const sessionId of new Set(this.#waiting.get(resource)?.values())) {
      const sentAt = this.#parts.clock.now();
      const check = this.#parts.checkExpiry(resource, sessionId);
      const checkInMs = await check.catch(() => AFTER_FAILURE_MS);
      const delayMs = this.#toDelayMs(checkInMs, sentAt);
      if (delayMs !== undefined) return delayMs;
    }
    return undefined;
  }

  /** "-": this process need not check. */
  #toDelayMs(checkInMs: string, sentAt: number): number | undefined {
    if (checkInMs === "-") return undefined;
    return Math.max(1, Number(checkInMs) - (this.#parts.clock.now() - sentAt));
  }
}
