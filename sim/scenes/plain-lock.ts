// What most services have today, small and honest: a lock with a ttl, taken by one conditional write, kept by renewals, with
// nobody at the resource who would know a late writer. Redis people know it as SET NX PX, etcd people as a lease and a put
// if the key is not there. It runs on the same store as Tenure and shows what the stories tell.

import type { Store } from "../../src/stores/contract.ts";
import type { Program } from "../world/program.ts";
import type { Stage } from "./stage.ts";

export interface PlainLockOptions {
  readonly ttlMs: number;
  readonly renewEveryMs: number;
  /** By which clock it looks at its deadline before it acts. "never": it waits until a renewal tells it. */
  readonly looks: "never" | "wall" | "monotonic";
  /** A renewal that says no is logged, and whoever is at work does not hear of it. @default false */
  readonly isDeaf?: boolean | undefined;
}

const LIMIT_MS = 900;

export class PlainLock {
  readonly #stage: Stage;
  readonly #program: Program;
  readonly #store: Store;
  readonly #options: PlainLockOptions;
  #sessionId = "";
  #token: bigint | undefined;
  /** On the clock that it looks at. */
  #expiresAt = 0;
  #isLetGo = false;

  constructor(stage: Stage, program: Program, store: Store, options: PlainLockOptions) {
    this.#stage = stage;
    this.#program = program;
    this.#store = store;
    this.#options = options;
  }

  /** It has one, as every grant does, and hands it to nobody. The ledger is judged by it. */
  get token(): bigint {
    return this.#token ?? 0n;
  }

  /** SET NX PX. */
  async take(): Promise<boolean> {
    const { resource } = this.#stage;
    const { name: holderId, chance } = this.#program;
    const sessionId = chance.id();
    const session = { sessionId, limitMs: LIMIT_MS };
    await this.#store.openSession({ ...session, holderId, ttlMs: this.#options.ttlMs });
    const attempt = `${sessionId}.1`;
    const outcome = await this.#store.grant({
      ...session, resource, attempt, holderId, queue: false,
    });
    if (outcome.kind !== "granted") return false;
    this.#sessionId = sessionId;
    this.#token = outcome.token;
    this.#extended();
    const { looks } = this.#options;
    this.#stage.tale.tell(holderId, {
      kind: "holds", token: outcome.token, looks: looks !== "never",
    });
    this.#stage.followDeadline(this.#program, () => this.#trueDeadline());
    void this.#renew(outcome.token);
    return true;
  }

  /** Asks again and again, so far apart, beginning at this instant. */
  async takeWhenFree(everyMs: number): Promise<void> {
    for (;;) {
      const next = this.#program.sleep(everyMs);
      if (await this.take().catch(() => false)) return;
      await next;
    }
  }

  /** What it asks itself before it acts. */
  isMine(): boolean {
    if (this.#token === undefined) return false;
    if (this.#options.looks === "never" || this.#now() < this.#expiresAt) return true;
    this.lose("finds by its own clock that the lock has expired");
    return false;
  }

  /** `lease_expires_at`, for those who look at it now and then. */
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
      resource, token, sessionId: this.#sessionId, limitMs: LIMIT_MS,
    });
  }

  /** Until the lock is over, or the renewing is stopped. */
  async #renew(token: bigint): Promise<void> {
    const { renewEveryMs } = this.#options;
    for (;;) {
      await this.#program.sleep(renewEveryMs);
      if (this.#token !== token || this.#isLetGo) return;
      const request = {
        sessionId: this.#sessionId,
        withdrawn: [],
        acknowledged: [],
        limitMs: LIMIT_MS,
      };
      // A renewal that failed is tried again at the next turn: perhaps it works then.
      const outcome = await this.#store.renew(request).catch(() => undefined);
      if (this.#token !== token) return;
      if (outcome?.kind === "renewed") this.#extended();
      if (outcome?.kind !== "gone") continue;
      if (this.#options.isDeaf !== true) this.lose("is told by a renewal that the lock is gone");
      else this.#stage.says(this.#program.name, "logs that its renewal failed, and works on");
      return;
    }
  }

  /** Stops renewing and says nothing to the store: the ttl will do. */
  letExpire(): void {
    this.#isLetGo = true;
  }

  /** From when the answer came, as it is so often written. */
  #extended(): void {
    this.#expiresAt = this.#now() + this.#options.ttlMs;
  }

  #now(): number {
    const { clock } = this.#program;
    return this.#options.looks === "wall" ? clock.wallNow() : clock.now();
  }

  #trueDeadline(): number {
    const { clocks } = this.#program;
    const now = this.#options.looks === "wall" ? clocks.wallNow() : clocks.now();
    return clocks.trueInstant(clocks.now() + this.#expiresAt - now);
  }
}
