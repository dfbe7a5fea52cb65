// One request of a caller: one or several messages over a link, within one time limit. It ends with
// an answer, or with an error that says whether anything may have been applied.

import type { Clock } from "../../async/clock.ts";
import { getSharedLimits } from "../../async/limits.ts";
import { isTenureError } from "../../core/errors.ts";
import { lateError, lostError, refusalOf } from "./failures.ts";
import { ProtocolError } from "./jute.ts";
import type { Link, Mark } from "./link.ts";
import { type Message, type MultiAnswer, multi, readMulti } from "./messages.ts";
import { ConnectionLostError, type Reply } from "./wire.ts";

export class Call {
  readonly #link: Link;
  #lastSent: Mark | undefined;
  #isOver = false;

  constructor(link: Link) {
    this.#link = link;
  }

  get place(): string {
    return this.#link.place;
  }

  get wasSent(): boolean {
    return this.#lastSent !== undefined;
  }

  get isConnected(): boolean {
    return this.#link.isConnected;
  }

  /** Its time limit has passed. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Sends a message. Throws unless the server accepts it or answers with one of these errors. */
  async ask(message: Message, ...expected: readonly number[]): Promise<Reply> {
    const reply = await this.send(message);
    if (reply.error !== 0 && !expected.includes(reply.error)) throw this.refusal(reply.error);
    return reply;
  }

  /** Sends several changes that are applied together or not at all. */
  async askAll(parts: readonly Message[], others?: readonly Call[]): Promise<MultiAnswer> {
    const reply = await this.send(multi(parts), others);
    if (reply.error === 0) return readMulti(reply.body);
    return { error: reply.error, failedAt: -1, parts: [] };
  }

  /**
   * Sends a message. Messages that are sent without waiting in between travel together and are
   * answered in order. `others`: further calls that the message belongs to.
   */
  send(message: Message, others: readonly Call[] = []): Promise<Reply> {
    // The caller has learned that nothing was sent, and that must stay true.
    if (this.#isOver && !this.wasSent) return Promise.reject(overError());
    if (!this.#link.isConnected)
      return this.#link.connected().then(() => this.send(message, others));
    const sent = this.#link.mark();
    this.#lastSent = sent;
    for (const other of others) other.#lastSent = sent;
    return this.#link.send(message);
  }

  /** Makes the next message a proof that the session lives from now on. See link.ts. */
  async resetExpiry(): Promise<void> {
    if (!this.#link.isConnected) await this.#link.connected();
    // This may have to wait for the server, so a connection that does not respond counts here too.
    this.#lastSent = this.#link.mark();
    await this.#link.resetExpiry();
  }

  /** For loops: ends them once the time limit has passed. */
  throwIfOver(): void {
    if (this.#isOver) throw overError();
  }

  /** The error for an answer that the caller cannot handle. */
  refusal(error: number): Error {
    return refusalOf(error, this.place);
  }

  giveUp(limitMs: number): Error {
    this.#isOver = true;
    if (this.#lastSent !== undefined) this.#link.dropSilent(this.#lastSent);
    return lateError(this.place, limitMs, this.wasSent);
  }
}

/** Runs `work` within the limit. It continues after that, so that a late answer is not lost. */
export function within<T>(
  clock: Clock,
  link: Link,
  limitMs: number,
  work: (call: Call) => Promise<T>,
): Promise<T> {
  const call = new Call(link);
  return new Promise((resolve, reject) => {
    const limit = getSharedLimits(clock).start(limitMs, () => reject(call.giveUp(limitMs)));
    work(call).then(
      (answer) => {
        limit.end();
        resolve(answer);
      },
      (error: Error) => {
        limit.end();
        reject(translate(error, call));
      },
    );
  });
}

function overError(): Error {
  return new Error("the time limit of this request has passed");
}

function translate(error: Error, call: Call): Error {
  const isLost = error instanceof ConnectionLostError || error instanceof ProtocolError;
  // A message that was sent may have been applied, also if the next connection fails.
  const mayBeApplied = isTenureError(error, "STORE_UNAVAILABLE") && call.wasSent;
  return isLost || mayBeApplied ? lostError(call.place, error) : error;
}
