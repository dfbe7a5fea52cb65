// What this process has released lately, or learned to be gone. A standby that lagged behind may
// not know of it when it takes over. There, a session that continues holds the lease again, and no
// process knows it. The first renewal that is answered in a newer era therefore repeats these
// releases. Without a failover nothing is sent.

/** Repeats the request, which is conditional on session and token, or on the attempt. */
export type GiveBack = (limitMs: number) => Promise<unknown>;

/** A standby that lags behind by more than this has lost more than a release. */
const REMEMBERED_MS = 60_000;
const REMEMBERED_MAX = 1_000;

export class RecentlyGivenBack {
  /** By a key of what was released, the newest last. */
  readonly #recent = new Map<string, { readonly giveBack: GiveBack; readonly at: number }>();
  /** What the new primary has not confirmed yet. */
  readonly #doubtful = new Set<GiveBack>();

  add(key: string, giveBack: GiveBack, now: number): void {
    this.#recent.delete(key);
    this.#recent.set(key, { giveBack, at: now });
    if (this.#recent.size <= REMEMBERED_MAX) return;
    const [oldest = key] = this.#recent.keys();
    this.#recent.delete(oldest);
  }

  /** After a failover: the new primary may know none of them. */
  doubt(now: number): void {
    for (const { giveBack, at } of this.#recent.values())
      if (now - at <= REMEMBERED_MS) this.#doubtful.add(giveBack);
    this.#recent.clear();
  }

  /** A request that fails is repeated by the next call. */
  async giveBackAgain(limitMs: number): Promise<void> {
    const repeated = [...this.#doubtful].map(async (giveBack) => {
      this.#doubtful.delete(giveBack);
      await giveBack(limitMs).catch(() => this.#doubtful.add(giveBack));
    });
    await Promise.all(repeated);
  }
}
