// The nodes below which places are created, as far as this process knows of them.

/** Which parents this process has seen. A few too many or too few cost a request, nothing else. */
export class KnownParents {
  readonly #paths = new Set<string>();

  has(path: string): boolean {
    return this.#paths.has(path);
  }

  add(path: string): void {
    if (this.#paths.size >= 10_000) this.#paths.clear();
    this.#paths.add(path);
  }

  forget(path: string): void {
    this.#paths.delete(path);
  }
}
