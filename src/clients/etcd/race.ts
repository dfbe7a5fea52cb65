// One request, at one member after the other until somebody answers: the next is asked when the first fails, and also when
// it is slow, without giving up on the first.

import type { Clock } from "../../async/clock.ts";
import { getSharedLimits, type Limit } from "../../async/limits.ts";
import { StoreUnavailableError } from "../../core/errors.ts";
import { judge, statusOf, unavailable } from "./errors.ts";
import type { EtcdCall, EtcdTransport } from "./transport.ts";

export interface Member {
  readonly transport: EtcdTransport;
  /** When it was last heard of. */
  heardAt: number;
}

export interface Reply<A> {
  readonly answer: A;
  /** An earlier copy of the request may have been carried out too. */
  readonly doubtful: boolean;
}

/** While an election is under way everybody says so at once: asked again this often. */
export const AGAIN_MS = 60;

interface Try {
  readonly member: Member;
  readonly call: EtcdCall;
  readonly sentAt: number;
  isOver: boolean;
}

export interface RaceParts {
  readonly clock: Clock;
  readonly limitMs: number;
  readonly count: number;
  readonly name: string;
  readonly place: string;
  /** No second copy of what may have been carried out. */
  readonly once: boolean;
  begin(offset: number): { readonly member: Member; readonly call: EtcdCall };
  prefer(member: Member): void;
  isClosed(): boolean;
}

/** One request, at one member after the other, until the first answer or the limit. */
export class Race {
  readonly #parts: RaceParts;
  readonly #tries: Try[] = [];
  readonly #endsAt: number;
  readonly #stepMs: number;
  #timer: Limit | undefined;
  #doubtful = false;
  #isOver = false;
  #resolve: (reply: Reply<Uint8Array>) => void = () => undefined;
  #reject: (error: unknown) => void = () => undefined;

  constructor(parts: RaceParts) {
    this.#parts = parts;
    this.#endsAt = parts.clock.now() + parts.limitMs;
    // Room for every member once, and for one of them to answer.
    this.#stepMs = parts.count === 1 ? parts.limitMs : parts.limitMs / (parts.count + 1);
  }

  /** Whether a copy of the request that got no answer may have been carried out. */
  get doubtful(): boolean {
    return this.#doubtful || this.#tries.some((each) => !each.isOver);
  }

  run(): Promise<Reply<Uint8Array>> {
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
      this.#next();
    });
  }

  #next(): void {
    const { clock } = this.#parts;
    const now = clock.now();
    if (this.#parts.isClosed()) {
      this.#closed();
      return;
    }
    const begun = this.#parts.begin(this.#tries.length);
    const mine: Try = { ...begun, sentAt: now, isOver: false };
    this.#tries.push(mine);
    mine.call.answer.then(
      (answer) => this.#answered(mine, answer),
      (error: unknown) => this.#failed(mine, error),
    );
    this.#wake(Math.min(this.#stepMs, this.#endsAt - now));
  }

  #wake(delayMs: number): void {
    const { clock } = this.#parts;
    this.#timer?.end();
    this.#timer = getSharedLimits(clock).start(delayMs, () => this.#late());
  }

  #answered(mine: Try, answer: Uint8Array): void {
    mine.isOver = true;
    mine.member.heardAt = this.#parts.clock.now();
    if (this.#isOver) return;
    if (this.#tries[0]?.member !== mine.member) this.#parts.prefer(mine.member);
    const { doubtful } = this;
    this.#settle(() => this.#resolve({ answer, doubtful }));
  }

  #failed(mine: Try, error: unknown): void {
    const { clock, count, once } = this.#parts;
    const isAnswer = statusOf(error) !== undefined;
    mine.isOver = true;
    if (isAnswer) mine.member.heardAt = clock.now();
    if (this.#isOver) return;
    const { kind, applied } = judge(error);
    if (applied === "unknown") this.#doubtful = true;
    if (kind !== "passing") this.#settle(() => this.#reject(error));
    else if (once && applied === "unknown") this.#giveUp(error);
    else if (this.#tries.length <= count) this.#next();
    else if (isAnswer && clock.now() + AGAIN_MS < this.#endsAt) this.#again();
    else if (this.#tries.every((each) => each.isOver)) this.#giveUp(error);
  }

  #again(): void {
    this.#timer?.end();
    this.#timer = getSharedLimits(this.#parts.clock).start(AGAIN_MS, () => this.#next());
  }

  #late(): void {
    const { clock, count, limitMs, name, place, once } = this.#parts;
    const leftMs = this.#endsAt - clock.now();
    if (leftMs > 0) {
      if (this.#tries.length < count && !once) this.#next();
      else this.#wake(leftMs);
      return;
    }
    const message = `etcd at ${place} did not answer the ${name} within ${Math.round(limitMs)} ms.`;
    this.#settle(() => this.#reject(new StoreUnavailableError(message, { applied: "unknown" })));
  }

  #giveUp(error: unknown): void {
    const { place } = this.#parts;
    const applied = this.doubtful ? "unknown" : "no";
    this.#settle(() => this.#reject(unavailable(error, { place, applied })));
  }

  #settle(finish: () => void): void {
    const { clock } = this.#parts;
    this.#isOver = true;
    this.#timer?.end();
    for (const each of this.#tries) {
      if (each.isOver) continue;
      each.call.cancel();
      const waitedMs = clock.now() - each.sentAt;
      // TCP alone would wait a quarter of an hour before it calls a silent connection dead.
      const isSilent = each.member.heardAt < each.sentAt && waitedMs >= this.#stepMs;
      if (isSilent) each.member.transport.reset();
    }
    finish();
  }

  /** What was sent before may have been carried out. */
  #closed(): void {
    const applied = this.doubtful ? "unknown" : "no";
    const message = `The store of etcd at ${this.#parts.place} is closed.`;
    this.#settle(() => this.#reject(new StoreUnavailableError(message, { applied })));
  }
}
