// Who is to be told when a node changes. A bell may ring for nothing, but never fails to: when the connection that would
// have told is lost, all of them ring.

export class Bells {
  readonly #ringers = new Map<string, Set<() => void>>();

  /** Returns the function that takes the bell away. */
  hang(path: string, ring: () => void): () => void {
    const ringers = this.#ringers.get(path) ?? new Set();
    this.#ringers.set(path, ringers);
    ringers.add(ring);
    return () => {
      ringers.delete(ring);
      if (ringers.size === 0 && this.#ringers.get(path) === ringers) this.#ringers.delete(path);
    };
  }

  ring(path: string): void {
    for (const ring of [...(this.#ringers.get(path) ?? [])]) ring();
  }

  ringAll(): void {
    for (const path of [...this.#ringers.keys()]) this.ring(path);
  }
}
