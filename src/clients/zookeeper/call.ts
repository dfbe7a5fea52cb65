// One request of a caller: one or several messages over a link, within one limit. Ends in an answer, or in an error that
// says whether something may have been done.

import type { Clock } from "../../async/clock.ts";
import { getSharedLimits } from "../../async/limits.ts";
import { isTenureError } from "../../core/errors.ts";
import { lateError, lostError } from "./failures.ts";
import { ProtocolError } from "./jute.ts";
import type { Link, Mark } from "./link.ts";
import type { Message } from "./messages.ts";
import { ConnectionLostError, type Reply } from "./wire.ts";

export class Call {
  readonly #link: Link;
  /** When something was last sent. */
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

  /** Nobody waits for it any more. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /**
   * What is sent without waiting in between travels together and is answered in this order. `others`: the calls that the
   * message belongs to as well.
   */
  send(message: Message, others: readonly Call[] = []): Promise<Reply> {
    // Its caller was told that nothing was sent, and that must stay true.
    if (this.#isOver && !this.wasSent) return Promise.reject(overError());
    if (!this.#link.isConnected)
      return this.#link.connected().then(() => this.send(message, others));
    const sent = this.#link.mark();
    this.#lastSent = sent;
    for (const other of others) other.#lastSent = sent;
    return this.#link.send(message);
  }

  /** See Link: whatever is sent next is a proof that the session lives from now on. */
  async resetExpiry(): Promise<void> {
    if (!this.#link.isConnected) await this.#link.connected();
    // It may have to wait for the server: a silent one must be noticed here too.
    this.#lastSent = this.#link.mark();
    await this.#link.resetExpiry();
  }

  /** For work that tries again: nobody waits for it any more once the time is up. */
  throwIfOver(): void {
    if (this.#isOver) throw overError();
  }

  /** To be called when time is up. */
  giveUp(limitMs: number): Error {
    this.#isOver = true;
    if (this.#lastSent !== undefined) this.#link.dropSilent(this.#lastSent);
    return lateError(this.place, limitMs, this.wasSent);
  }
}

/** Runs `work` within the limit. It goes on behind the limit, so that what it learns late is not lost. */
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
        reject(translated(error, call));
      },
    );
  });
}

function overError(): Error {
  return new Error("the time for this request is over");
}

function translated(error: Error, call: Call): Error {
  if (error instanceof ConnectionLostError || error instanceof ProtocolError)
    return lostError(call.place, error);
  // Once something was sent, a failure to connect again does not make it undone.
  if (isTenureError(error, "STORE_UNAVAILABLE") && call.wasSent)
    return lostError(call.place, error);
  return error;
}
