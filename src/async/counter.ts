// Counts operations in flight. A counter and not a set of promises, because such a set delays the
// garbage collection of their results.

export class InFlight {
  #count = 0;
  #whenIdle: (() => void)[] = [];

  begin(): void {
    this.#count += 1;
  }

  end(): void {
    this.#count -= 1;
    if (this.#count > 0 || this.#whenIdle.length === 0) return;
    for (const resolve of this.#whenIdle.splice(0)) resolve();
  }

  /** Resolves as soon as no operation is in flight. */
  idle(): Promise<void> {
    if (this.#count === 0) return Promise.resolve();
    return new Promise((resolve) => this.#whenIdle.push(resolve));
  }
}
