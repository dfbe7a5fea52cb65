// One request to the members of the cluster, one after the other, until the first answer. The next
// member is asked when a member fails, and also when it is slow, without giving up on it.

import type { Clock } from "../../async/clock.ts";
import { getSharedLimits, type Limit } from "../../async/limits.ts";
import { StoreUnavailableError } from "../../core/errors.ts";
import { judge, statusOf, unavailable } from "./errors.ts";
import type { EtcdCall, EtcdTransport } from "./transport.ts";

export interface Member {
  readonly transport: EtcdTransport;
  /** When anything last arrived from it. */
  heardAt: number;
}

/** During an election, every member answers at once that there is no leader. */
const RETRY_MS = 60;

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
  /** Send no second copy if the first may have been applied. */
  readonly once: boolean;
  begin(offset: number): { readonly member: Member; readonly call: EtcdCall };
  prefer(member: Member): void;
  /** Throws if the client is closed. */
  checkOpen(): void;
}

export class Race {
  readonly #parts: RaceParts;
  readonly #tries: Try[] = [];
  readonly #endsAt: number;
  /** How long one member has before the next is asked. Leaves time for the last one to answer. */
  readonly #stepMs: number;
  #limit: Limit | undefined;
  #mayBeApplied = false;
  #isOver = false;
  #resolve: (answer: Uint8Array) => void = () => undefined;
  #reject: (error: unknown) => void = () => undefined;

  constructor(parts: RaceParts) {
    const { clock, limitMs, count } = parts;
    this.#parts = parts;
    this.#endsAt = clock.now() + limitMs;
    this.#stepMs = count === 1 ? limitMs : limitMs / (count + 1);
  }

  /** Whether a copy of the request that got no answer may have been applied. */
  get isDoubtful(): boolean {
    return this.#mayBeApplied || this.#tries.some(({ isOver }) => !isOver);
  }

  run(): Promise<Uint8Array> {
    return new Promise((resolve, reject) => {
      this.#resolve = resolve;
      this.#reject = reject;
      this.#next();
    });
  }

  #next(): void {
    const { clock, checkOpen, begin } = this.#parts;
    try {
      checkOpen();
      const mine = { ...begin(this.#tries.length), sentAt: clock.now(), isOver: false };
      this.#tries.push(mine);
      mine.call.answer.then(
        (answer) => this.#answered(mine, answer),
        (error: unknown) => this.#failed(mine, error),
      );
      this.#wakeIn(Math.min(this.#stepMs, this.#endsAt - mine.sentAt), () => this.#late());
    } catch (error) {
      this.#settle(() => this.#reject(error));
    }
  }

  #wakeIn(delayMs: number, wake: () => void): void {
    this.#limit?.end();
    this.#limit = getSharedLimits(this.#parts.clock).start(delayMs, wake);
  }

  #answered(mine: Try, answer: Uint8Array): void {
    mine.isOver = true;
    mine.member.heardAt = this.#parts.clock.now();
    if (this.#isOver) return;
    if (this.#tries[0]?.member !== mine.member) this.#parts.prefer(mine.member);
    this.#settle(() => this.#resolve(answer));
  }

  #failed(mine: Try, error: unknown): void {
    const { clock, count, once, place } = this.#parts;
    const isAnswer = statusOf(error) !== undefined;
    mine.isOver = true;
    if (isAnswer) mine.member.heardAt = clock.now();
    if (this.#isOver) return;
    const { kind, applied } = judge(error);
    if (applied === "unknown") this.#mayBeApplied = true;
    const isLast = this.#tries.length > count;
    const mayRetry = isAnswer && clock.now() + RETRY_MS < this.#endsAt;
    const mustStop = once && applied === "unknown";
    if (kind !== "passing") this.#settle(() => this.#reject(error));
    else if (!mustStop && !isLast) this.#next();
    else if (!mustStop && mayRetry) this.#wakeIn(RETRY_MS, () => this.#next());
    else if (mustStop || this.#tries.every(({ isOver }) => isOver)) {
      const known = this.isDoubtful ? "unknown" : "no";
      this.#settle(() => this.#reject(unavailable(error, { place, applied: known })));
    }
  }

  #late(): void {
    const { clock, count, limitMs, name, place, once } = this.#parts;
    const leftMs = this.#endsAt - clock.now();
    if (leftMs > 0 && this.#tries.length < count && !once) this.#next();
    else if (leftMs > 0) this.#wakeIn(leftMs, () => this.#late());
    else {
      const message = `etcd at ${place} did not answer the ${name} within ${Math.round(limitMs)} ms.`;
      this.#settle(() => this.#reject(new StoreUnavailableError(message, { applied: "unknown" })));
    }
  }

  #settle(finish: () => void): void {
    const now = this.#parts.clock.now();
    this.#isOver = true;
    this.#limit?.end();
    finish();
    for (const { isOver, call, member, sentAt } of this.#tries) {
      if (isOver) continue;
      call.cancel();
      // TCP alone would wait a quarter of an hour before it gives up a silent connection.
      if (member.heardAt < sentAt && now - sentAt >= this.#stepMs) member.transport.reset();
    }
  }
}
