// What this process has given back lately, or was told to be gone. A standby that was behind may not have heard of it when it takes
// over: there the lease is held again by a session that goes on, and nobody knows of it. So the first renewal that is answered from
// a newer timeline has it given back once more. Without a failover nothing is sent.

/** The same request again; it is conditional on session and token, or attempt, as it was. */
export type GiveBack = (limitMs: number) => Promise<unknown>;

/** A standby that is further behind than this has lost more than a release. */
const REMEMBERED_MS = 60_000;
const REMEMBERED_MAX = 1_000;

export class RecentlyGivenBack {
  /** By what they gave back, the newest last. */
  readonly #recent = new Map<string, { readonly giveBack: GiveBack; readonly at: number }>();
  /** Those that the new primary is still to be asked for. */
  readonly #doubtful = new Set<GiveBack>();

  add(what: string, giveBack: GiveBack, now: number): void {
    this.#recent.delete(what);
    this.#recent.set(what, { giveBack, at: now });
    if (this.#recent.size <= REMEMBERED_MAX) return;
    const [oldest = what] = this.#recent.keys();
    this.#recent.delete(oldest);
  }

  /** A failover: the new primary may not know of any of them. */
  doubt(now: number): void {
    for (const { giveBack, at } of this.#recent.values())
      if (now - at <= REMEMBERED_MS) this.#doubtful.add(giveBack);
    this.#recent.clear();
  }

  /** What cannot be asked for now is, the next time. */
  async giveBackAgain(limitMs: number): Promise<void> {
    const asked = [...this.#doubtful].map(async (giveBack) => {
      this.#doubtful.delete(giveBack);
      await giveBack(limitMs).catch(() => this.#doubtful.add(giveBack));
    });
    await Promise.all(asked);
  }
}
