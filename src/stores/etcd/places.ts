// What this process knows of its own places in the queues: since which revision it waits, and whether the resource has
// been free for so long that it need not wait for those before it. Forgetting it costs a round trip, nothing else.

export interface Place {
  /** When it joined: the revision that made its key. */
  readonly revision: bigint;
  readonly mayOvertake: boolean;
}

export class Places {
  readonly #sessions = new Map<string, Map<string, Place>>();

  get(sessionId: string, attempt: string): Place | undefined {
    return this.#sessions.get(sessionId)?.get(attempt);
  }

  set(sessionId: string, attempt: string, revision: bigint, mayOvertake = false): void {
    let places = this.#sessions.get(sessionId);
    if (places === undefined) {
      places = new Map();
      this.#sessions.set(sessionId, places);
    }
    places.set(attempt, { revision, mayOvertake });
  }

  forget(sessionId: string, attempt: string): void {
    const places = this.#sessions.get(sessionId);
    places?.delete(attempt);
    if (places?.size === 0) this.#sessions.delete(sessionId);
  }

  forgetSession(sessionId: string): void {
    this.#sessions.delete(sessionId);
  }
}
