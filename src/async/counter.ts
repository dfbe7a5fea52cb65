// How many are at something. Counted, not collected: a set of promises keeps what they resolved with from the garbage collector
// for a while.

export class Underway {
  #count = 0;
  #whenNone: (() => void)[] = [];

  begin(): void {
    this.#count += 1;
  }

  end(): void {
    this.#count -= 1;
    if (this.#count > 0 || this.#whenNone.length === 0) return;
    for (const resolve of this.#whenNone.splice(0)) resolve();
  }

  /** Resolves when nobody is, at once if nobody is now. */
  none(): Promise<void> {
    if (this.#count === 0) return Promise.resolve();
    return new Promise((resolve) => this.#whenNone.push(resolve));
  }
}
