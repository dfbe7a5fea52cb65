// Group commit: concurrent requests share a message to the backend, and so one round trip, one
// commit and one flush to disk. The first request is sent immediately and alone. Requests that
// arrive while another is in flight are sent together at the end of the turn of the event loop. The
// backend decides each request by itself, and each gets its own answer.

import type { Clock } from "../../async/clock.ts";

/** A larger batch would delay the answer of its first request too long. */
const BATCH_MAX = 16;

interface Pending<Request, Answer> {
  readonly request: Request;
  readonly endsAt: number;
  resolve(answer: Answer): void;
  reject(reason: unknown): void;
}

export interface BatchParts<Request, Answer> {
  readonly clock: Clock;
  /** Names what a request changes. Two requests with the same key never share a message. */
  toKey(request: Request): string;
  /** Sends one request. `again`: it was in a batch that was rejected or did not decide it. */
  one(request: Request, limitMs: number, again: boolean): Promise<Answer>;
  /** Sends several requests. An undefined answer means that the request must be sent alone. */
  many(requests: readonly Request[], limitMs: number): Promise<readonly (Answer | undefined)[]>;
  /** Whether a failure of `many` proves that no request of the batch was or will be applied. */
  isRejection(error: unknown): boolean;
}

export class Batches<Request, Answer> {
  readonly #parts: BatchParts<Request, Answer>;
  #waiting: Pending<Request, Answer>[] = [];
  #inFlight = 0;

  constructor(parts: BatchParts<Request, Answer>) {
    this.#parts = parts;
  }

  ask(request: Request, limitMs: number): Promise<Answer> {
    if (this.#inFlight === 0) return this.#one(request, limitMs, false);
    return new Promise((resolve, reject) => {
      const endsAt = this.#parts.clock.now() + limitMs;
      if (this.#waiting.push({ request, endsAt, resolve, reject }) === 1)
        this.#parts.clock.soon(() => this.#send());
    });
  }

  #send(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    const keys = new Set<string>();
    let batch: Pending<Request, Answer>[] = [];
    for (const asked of waiting) {
      const key = this.#parts.toKey(asked.request);
      if (batch.length === BATCH_MAX || keys.has(key)) {
        this.#dispatch(batch);
        batch = [];
        keys.clear();
      }
      keys.add(key);
      batch.push(asked);
    }
    this.#dispatch(batch);
  }

  #dispatch(batch: readonly Pending<Request, Answer>[]): void {
    const [first, second] = batch;
    if (first !== undefined && second === undefined) this.#sendAlone(first, false);
    else void this.#sendTogether(batch);
  }

  async #sendTogether(batch: readonly Pending<Request, Answer>[]): Promise<void> {
    const endsAt = Math.min(...batch.map((asked) => asked.endsAt));
    const requests = batch.map(({ request }) => request);
    this.#inFlight += 1;
    try {
      const answers = await this.#parts.many(requests, this.#leftMs(endsAt));
      for (const [index, asked] of batch.entries()) {
        const answer = answers[index];
        if (answer === undefined) this.#sendAlone(asked, true);
        else asked.resolve(answer);
      }
    } catch (error) {
      // A lost answer is lost for every request. A rejection of the batch does not say which
      // request caused it, so each is sent again alone.
      const isRejection = this.#parts.isRejection(error);
      for (const asked of batch) isRejection ? this.#sendAlone(asked, true) : asked.reject(error);
    } finally {
      this.#inFlight -= 1;
    }
  }

  #sendAlone({ request, endsAt, resolve, reject }: Pending<Request, Answer>, again: boolean): void {
    this.#one(request, this.#leftMs(endsAt), again).then(resolve, reject);
  }

  async #one(request: Request, limitMs: number, again: boolean): Promise<Answer> {
    this.#inFlight += 1;
    try {
      return await this.#parts.one(request, limitMs, again);
    } finally {
      this.#inFlight -= 1;
    }
  }

  #leftMs(endsAt: number): number {
    return Math.max(0, endsAt - this.#parts.clock.now());
  }
}
