// Requests of one kind that come at the same moment share a statement: one round trip, one commit, one flush to the disk for
// all of them. The first one leaves at once, alone; those that come while one is under way leave together at the end of
// the turn of the event loop. Each is decided by itself and answered by itself: what is lost is lost for each.

import type { Clock } from "../../core/clock.ts";
import { isTenureError } from "../../core/errors.ts";

/** More in one transaction would keep the first waiting for the last. */
const BATCH_MAX = 16;

interface Asked<Request> {
  readonly request: Request;
  readonly endsAt: number;
  resolve(answer: string): void;
  reject(reason: unknown): void;
}

export interface BatchParts<Request> {
  readonly clock: Clock;
  /** Asks for one. */
  one(request: Request, limitMs: number): Promise<string>;
  /** Asks for several; `-` in the place of one means that it has to be asked for by itself. */
  many(requests: readonly Request[], limitMs: number): Promise<string>;
}

export class Batches<Request> {
  readonly #parts: BatchParts<Request>;
  #waiting: Asked<Request>[] = [];
  #underWay = 0;

  constructor(parts: BatchParts<Request>) {
    this.#parts = parts;
  }

  ask(request: Request, limitMs: number): Promise<string> {
    if (this.#underWay === 0) return this.#one(request, limitMs);
    return new Promise((resolve, reject) => {
      const endsAt = this.#parts.clock.now() + limitMs;
      if (this.#waiting.push({ request, endsAt, resolve, reject }) === 1)
        this.#parts.clock.soon(() => this.#send());
    });
  }

  #send(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (let start = 0; start < waiting.length; start += BATCH_MAX) {
      const [first, ...others] = waiting.slice(start, start + BATCH_MAX) as [Asked<Request>];
      if (others.length === 0) this.#alone(first);
      else void this.#together([first, ...others]);
    }
  }

  async #together(batch: readonly Asked<Request>[]): Promise<void> {
    const endsAt = Math.min(...batch.map((asked) => asked.endsAt));
    const requests = batch.map(({ request }) => request);
    this.#underWay += 1;
    try {
      const answers = (await this.#parts.many(requests, this.#leftMs(endsAt))).split(" ");
      for (const [index, asked] of batch.entries()) {
        const answer = answers[index] ?? "-";
        if (answer === "-") this.#alone(asked);
        else asked.resolve(answer);
      }
    } catch (error) {
      // A lost answer is lost for each. A refusal is nobody's answer: whom it concerns is found out one by one.
      const isLost = isTenureError(error, "STORE_UNAVAILABLE");
      for (const asked of batch) isLost ? asked.reject(error) : this.#alone(asked);
    } finally {
      this.#underWay -= 1;
    }
  }

  #alone({ request, endsAt, resolve, reject }: Asked<Request>): void {
    this.#one(request, this.#leftMs(endsAt)).then(resolve, reject);
  }

  async #one(request: Request, limitMs: number): Promise<string> {
    this.#underWay += 1;
    try {
      return await this.#parts.one(request, limitMs);
    } finally {
      this.#underWay -= 1;
    }
  }

  #leftMs(endsAt: number): number {
    return Math.max(0, endsAt - this.#parts.clock.now());
  }
}

/** A list as PostgreSQL writes it. */
export function listOf(texts: readonly string[]): string {
  return `{${texts.map((text) => `"${text.replaceAll(/["\\]/g, "\\$&")}"`).join(",")}}`;
}
