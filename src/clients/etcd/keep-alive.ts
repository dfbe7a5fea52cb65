// The one stream on which all sessions of a store are kept alive. etcd answers its messages in order, so an answer
// belongs to the oldest message that has none. A stream on which one came too late is given up with all that wait on
// it: otherwise a late answer could be taken for that of a newer message.

import type { Clock } from "../../async/clock.ts";
import { isTenureError, StoreUnavailableError } from "../../core/errors.ts";
import { judge, statusOf, unavailable } from "./failures.ts";
import type { Credential } from "./logins.ts";
import type { Members, Opened } from "./members.ts";
import { AGAIN_MS } from "./race.ts";
import { type LeaseAnswer, leaseKeepAlive } from "./rpc.ts";

interface Waiting {
  readonly lease: bigint;
  resolve(answer: LeaseAnswer): void;
  reject(error: unknown): void;
}

interface Line extends Opened {
  readonly waiting: Waiting[];
}

export class KeepAlives {
  readonly #members: Members;
  readonly #clock: Clock;
  #line: Line | undefined;

  constructor(members: Members, clock: Clock) {
    this.#members = members;
    this.#clock = clock;
  }

  /** What the member says. Whether it may say so is another question: see renewal.ts. */
  async renew(lease: bigint, limitMs: number): Promise<LeaseAnswer> {
    const endsAt = this.#clock.now() + limitMs;
    const { count, place } = this.#members;
    const stepMs = count === 1 ? limitMs : limitMs / (count + 1);
    let rejected: Credential | undefined;
    let rejections = 0;
    for (let tries = 1; ; tries += 1) {
      const login = this.#members.loggedIn(endsAt - this.#clock.now(), rejected);
      if (login !== undefined) await login;
      const leftMs = endsAt - this.#clock.now();
      if (leftMs <= 0) throw this.#tooLate(limitMs);
      let line: Line | undefined;
      try {
        line = this.#opened();
        return await this.#send(line, lease, Math.min(stepMs, leftMs));
      } catch (error) {
        if (isTenureError(error)) throw error;
        if (judge(error).kind !== "passing") {
          rejections += 1;
          const facts = { tries: rejections, isDoubtful: true };
          const final = this.#members.finalError(error, facts);
          if (final !== undefined) throw final;
          rejected = line?.used;
        } else if (tries > count) {
          // Whoever can say that there is no leader will say when there is one again.
          if (statusOf(error) === undefined)
            throw unavailable(error, { place, applied: "unknown" });
          await new Promise<void>((resolve) => {
            this.#clock.setTimer(resolve, AGAIN_MS, { keepAlive: true });
          });
        }
      }
    }
  }

  close(): void {
    const line = this.#line;
    if (line !== undefined) this.#end(line, this.#members.closedError());
    line?.stream.cancel();
  }

  #send(line: Line, lease: bigint, limitMs: number): Promise<LeaseAnswer> {
    return new Promise((resolve, reject) => {
      const sentAt = this.#clock.now();
      const timer = this.#clock.setTimer(
        () => {
          this.#members.leave(line.member, sentAt);
          line.stream.cancel();
          this.#end(line, new LateError());
        },
        limitMs,
        { keepAlive: true },
      );
      line.waiting.push({
        lease,
        resolve: (answer) => {
          timer.cancel();
          resolve(answer);
        },
        reject: (error) => {
          timer.cancel();
          reject(error);
        },
      });
      line.stream.send(leaseKeepAlive.encode(lease));
    });
  }

  #opened(): Line {
    if (this.#line !== undefined) return this.#line;
    const opened = this.#members.stream(leaseKeepAlive.path, {
      onMessage: (message) => this.#answered(line, leaseKeepAlive.decode(message)),
      onEnd: (reason) => {
        if (judge(reason).kind === "passing") this.#members.leave(opened.member, 0);
        this.#end(line, reason);
      },
    });
    const line: Line = { ...opened, waiting: [] };
    this.#line = line;
    return line;
  }

  #answered(line: Line, answer: LeaseAnswer): void {
    const oldest = line.waiting.shift();
    if (oldest === undefined || oldest.lease === answer.id) {
      oldest?.resolve(answer);
      return;
    }
    line.stream.cancel();
    oldest.reject(new Error("the answers to renewals came out of order"));
    this.#end(line, new Error("the answers to renewals came out of order"));
  }

  #end(line: Line, reason: unknown): void {
    if (this.#line === line) this.#line = undefined;
    for (const each of line.waiting.splice(0)) each.reject(reason);
  }

  #tooLate(limitMs: number): StoreUnavailableError {
    return new StoreUnavailableError(
      `etcd at ${this.#members.place} did not answer the ${leaseKeepAlive.name} within ${Math.round(limitMs)} ms.`,
      { applied: "unknown" },
    );
  }
}

/** No answer within the time for one member. */
class LateError extends Error {}
