// Of all callers in this process that want the same resource, one at a time asks the store; the others stand in line
// here. A hundred local waiters cost the store no more than one.

export class Turns {
  readonly #lines = new Map<string, (() => void)[]>();

  /** Resolves with the function that ends the turn; rejects with the signal's reason. */
  take(resource: string, signal: AbortSignal): Promise<() => void> {
    const line = this.#lines.get(resource);
    if (line === undefined) return Promise.resolve(this.#begin(resource));
    return new Promise((resolve, reject) => {
      const next = (): void => {
        signal.removeEventListener("abort", leave);
        resolve(() => this.#next(resource));
      };
      const leave = (): void => {
        line.splice(line.indexOf(next), 1);
        reject(signal.reason);
      };
      line.push(next);
      signal.addEventListener("abort", leave, { once: true });
    });
  }

  /** The same for someone who does not want to wait: undefined when it is somebody else's turn. */
  tryTake(resource: string): (() => void) | undefined {
    return this.#lines.has(resource) ? undefined : this.#begin(resource);
  }

  #begin(resource: string): () => void {
    this.#lines.set(resource, []);
    return () => this.#next(resource);
  }

  #next(resource: string): void {
    const next = this.#lines.get(resource)?.shift();
    if (next === undefined) this.#lines.delete(resource);
    else next();
  }
}
