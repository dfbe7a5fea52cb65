// Requests that come at the same moment share a message to the backend: one round trip, one commit, one flush to the disk for
// all of them. The first leaves at once, alone; those that come while one is under way leave together at the end of the
// turn of the event loop. Each is decided by itself and answered by itself: what is lost is lost for each.

import type { Clock } from "../../async/clock.ts";

/** More in one step of the backend would keep the first waiting for the last. */
const BATCH_MAX = 16;

interface Asked<Request, Answer> {
  readonly request: Request;
  readonly endsAt: number;
  resolve(answer: Answer): void;
  reject(reason: unknown): void;
}

export interface BatchParts<Request, Answer> {
  readonly clock: Clock;
  /** What a request changes: two that change the same never share a message. */
  nameOf(request: Request): string;
  /** Asks for one. `again`: it was in a batch before, which was refused or left it open. */
  one(request: Request, limitMs: number, again: boolean): Promise<Answer>;
  /** Asks for several. Undefined in the place of one means that it has to be asked for by itself. */
  many(requests: readonly Request[], limitMs: number): Promise<readonly (Answer | undefined)[]>;
  /** Whether a failure of `many` says for certain that nothing of the batch was or will be carried out. */
  isRefusal(error: unknown): boolean;
}

export class Batches<Request, Answer> {
  readonly #parts: BatchParts<Request, Answer>;
  #waiting: Asked<Request, Answer>[] = [];
  #underWay = 0;

  constructor(parts: BatchParts<Request, Answer>) {
    this.#parts = parts;
  }

  ask(request: Request, limitMs: number): Promise<Answer> {
    if (this.#underWay === 0) return this.#one(request, limitMs, false);
    return new Promise((resolve, reject) => {
      const endsAt = this.#parts.clock.now() + limitMs;
      if (this.#waiting.push({ request, endsAt, resolve, reject }) === 1)
        this.#parts.clock.soon(() => this.#send());
    });
  }

  #send(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    const names = new Set<string>();
    let batch: Asked<Request, Answer>[] = [];
    for (const asked of waiting) {
      const name = this.#parts.nameOf(asked.request);
      if (batch.length === BATCH_MAX || names.has(name)) {
        this.#leave(batch);
        batch = [];
        names.clear();
      }
      names.add(name);
      batch.push(asked);
    }
    this.#leave(batch);
  }

  #leave(batch: readonly Asked<Request, Answer>[]): void {
    const [first, second] = batch;
    if (first !== undefined && second === undefined) this.#alone(first, false);
    else void this.#together(batch);
  }

  async #together(batch: readonly Asked<Request, Answer>[]): Promise<void> {
    const endsAt = Math.min(...batch.map((asked) => asked.endsAt));
    const requests = batch.map(({ request }) => request);
    this.#underWay += 1;
    try {
      const answers = await this.#parts.many(requests, this.#leftMs(endsAt));
      for (const [index, asked] of batch.entries()) {
        const answer = answers[index];
        if (answer === undefined) this.#alone(asked, true);
        else asked.resolve(answer);
      }
    } catch (error) {
      // A lost answer is lost for each. A refusal is nobody's answer: whom it concerns is found out one by one.
      const isRefusal = this.#parts.isRefusal(error);
      for (const asked of batch) isRefusal ? this.#alone(asked, true) : asked.reject(error);
    } finally {
      this.#underWay -= 1;
    }
  }

  #alone({ request, endsAt, resolve, reject }: Asked<Request, Answer>, again: boolean): void {
    this.#one(request, this.#leftMs(endsAt), again).then(resolve, reject);
  }

  async #one(request: Request, limitMs: number, again: boolean): Promise<Answer> {
    this.#underWay += 1;
    try {
      return await this.#parts.one(request, limitMs, again);
    } finally {
      this.#underWay -= 1;
    }
  }

  #leftMs(endsAt: number): number {
    return Math.max(0, endsAt - this.#parts.clock.now());
  }
}
