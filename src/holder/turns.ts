// Of all callers in this process that want the same resource, one at a time asks the store; the others stand in line
// here. A hundred local waiters cost the store no more than one.

export class Turns {
  /** Undefined: it is somebody's turn, and nobody stands in line. */
  readonly #lines = new Map<string, (() => void)[] | undefined>();

  /** Resolves when it is the caller's turn; rejects with the signal's reason. */
  take(resource: string, signal: AbortSignal): Promise<void> {
    if (this.tryTake(resource)) return Promise.resolve();
    const line = this.#lines.get(resource) ?? [];
    this.#lines.set(resource, line);
    return new Promise((resolve, reject) => {
      const next = (): void => {
        signal.removeEventListener("abort", leave);
        resolve();
      };
      const leave = (): void => {
        line.splice(line.indexOf(next), 1);
        reject(signal.reason);
      };
      line.push(next);
      signal.addEventListener("abort", leave, { once: true });
    });
  }

  /** The same for someone who does not want to wait: false when it is somebody else's turn. */
  tryTake(resource: string): boolean {
    if (this.#lines.has(resource)) return false;
    this.#lines.set(resource, undefined);
    return true;
  }

  /** Whoever has the turn calls this once: it is the next one's. */
  end(resource: string): void {
    const next = this.#lines.get(resource)?.shift();
    if (next === undefined) this.#lines.delete(resource);
    else next();
  }
}
