// Serializes the callers of one process that want the same resource. Only the first in each line
// sends requests to the store, so a hundred local waiters cost the store as much as one.

export class LocalQueue {
  /** The callers waiting for each resource that is in use. Undefined: in use, no caller waiting. */
  readonly #lines = new Map<string, (() => void)[] | undefined>();

  /** Resolves when it is the caller's turn; rejects with the signal's reason. */
  enter(resource: string, signal: AbortSignal): Promise<void> {
    if (this.tryEnter(resource)) return Promise.resolve();
    const line = this.#lines.get(resource) ?? [];
    this.#lines.set(resource, line);
    return new Promise((resolve, reject) => {
      const next = (): void => {
        signal.removeEventListener("abort", giveUp);
        resolve();
      };
      const giveUp = (): void => {
        line.splice(line.indexOf(next), 1);
        reject(signal.reason);
      };
      line.push(next);
      signal.addEventListener("abort", giveUp, { once: true });
    });
  }

  /** As enter(), without waiting. False: another caller has its turn. */
  tryEnter(resource: string): boolean {
    if (this.#lines.has(resource)) return false;
    this.#lines.set(resource, undefined);
    return true;
  }

  /** Ends the caller's turn and begins the next one. Call it exactly once per turn. */
  leave(resource: string): void {
    const next = this.#lines.get(resource)?.shift();
    if (next === undefined) this.#lines.delete(resource);
    else next();
  }
}
