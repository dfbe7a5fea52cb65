// The lock that most services use today: a lock with a ttl, taken by one conditional write and kept
// by renewals, without a check at the resource. In Redis this is SET NX PX, in etcd a lease and a
// conditional put. It runs on the same store as Tenure.

import type { Store } from "../../src/stores/contract.ts";
import type { Program } from "../world/program.ts";
import type { Stage } from "./stage.ts";

export interface PlainLockOptions {
  readonly ttlMs: number;
  readonly renewEveryMs: number;
  /**
   * The clock by which it checks its deadline before it acts. "none": it relies on its renewals.
   */
  readonly deadlineClock: "none" | "wall" | "monotonic";
  /** Whether the worker goes on after a rejected renewal, which is only logged. @default false */
  readonly ignoresLoss?: boolean | undefined;
}

const LIMIT_MS = 900;

export class PlainLock {
  readonly #stage: Stage;
  readonly #program: Program;
  readonly #store: Store;
  readonly #options: PlainLockOptions;
  #sessionId = "";
  #token: bigint | undefined;
  /** On the clock that it checks. */
  #expiresAt = 0;
  #isRenewalStopped = false;

  constructor(stage: Stage, program: Program, store: Store, options: PlainLockOptions) {
    this.#stage = stage;
    this.#program = program;
    this.#store = store;
    this.#options = options;
  }

  /** Every grant has a token, but this lock does not use it. The ledger is judged by it. */
  get token(): bigint {
    return this.#token ?? 0n;
  }

  /** Corresponds to SET NX PX. */
  async take(): Promise<boolean> {
    const { resource } = this.#stage;
    const { name: holderId, chance } = this.#program;
    const sessionId = chance.id();
    const session = { sessionId, limitMs: LIMIT_MS };
    await this.#store.openSession({ ...session, holderId, ttlMs: this.#options.ttlMs });
    const attempt = `${sessionId}.1`;
    const outcome = await this.#store.grant({
      ...session,
      resource,
      attempt,
      holderId,
      queue: false,
    });
    if (outcome.kind !== "granted") return false;
    this.#sessionId = sessionId;
    this.#token = outcome.token;
    this.#extended();
    const { deadlineClock } = this.#options;
    this.#stage.tale.record(holderId, {
      kind: "holds",
      token: outcome.token,
      checksDeadline: deadlineClock !== "none",
    });
    this.#stage.followDeadline(this.#program, () => this.#trueDeadline());
    void this.#renew(outcome.token);
    return true;
  }

  /** Tries at this interval, starting now, until it has the lock. */
  async takeWhenFree(everyMs: number): Promise<void> {
    for (;;) {
      const next = this.#program.sleep(everyMs);
      if (await this.take().catch(() => false)) return;
      await next;
    }
  }

  /** What it checks before it acts. */
  isMine(): boolean {
    if (this.#token === undefined) return false;
    if (this.#options.deadlineClock === "none" || this.#now() < this.#expiresAt) return true;
    this.lose("finds by its own clock that the lock has expired");
    return false;
  }

  /** Whether the stored expiry has passed, for programs that check it only now and then. */
  isExpired(): boolean {
    return this.#now() >= this.#expiresAt;
  }

  lose(why: string): void {
    if (this.#token === undefined) return;
    this.#token = undefined;
    this.#stage.stopped(this.#program, why, false);
  }

  async release(): Promise<void> {
    const { resource } = this.#stage;
    const { token } = this;
    this.#token = undefined;
    this.#stage.stopped(this.#program, "releases the lock", true);
    await this.#store.release({
      resource,
      token,
      sessionId: this.#sessionId,
      limitMs: LIMIT_MS,
    });
  }

  /** Renews until the lock has ended or renewing is stopped. */
  async #renew(token: bigint): Promise<void> {
    const { renewEveryMs } = this.#options;
    for (;;) {
      await this.#program.sleep(renewEveryMs);
      if (this.#token !== token || this.#isRenewalStopped) return;
      const request = {
        sessionId: this.#sessionId,
        withdrawn: [],
        acknowledged: [],
        limitMs: LIMIT_MS,
      };
      // A failed renewal is repeated at the next interval.
      const outcome = await this.#store.renew(request).catch(() => undefined);
      if (this.#token !== token) return;
      if (outcome?.kind === "renewed") this.#extended();
      if (outcome?.kind !== "gone") continue;
      if (this.#options.ignoresLoss !== true)
        this.lose("learns from a renewal that the lock is gone");
      else this.#stage.says(this.#program.name, "logs that its renewal failed, and continues");
      return;
    }
  }

  /** Stops renewing without a release, so that the ttl ends the lock. */
  letExpire(): void {
    this.#isRenewalStopped = true;
  }

  /** Counts from the arrival of the answer, as is common practice. */
  #extended(): void {
    this.#expiresAt = this.#now() + this.#options.ttlMs;
  }

  #now(): number {
    const { clock } = this.#program;
    return this.#options.deadlineClock === "wall" ? clock.wallNow() : clock.now();
  }

  #trueDeadline(): number {
    const { clocks } = this.#program;
    const now = this.#options.deadlineClock === "wall" ? clocks.wallNow() : clocks.now();
    return clocks.trueInstant(clocks.now() + this.#expiresAt - now);
  }
}
